"""How fast the event loop is, and how much memory it takes: python benchmarks/event_loop.py

The task's solve is free and its model has one entry, so that what is left is the clock, the server, the clients,
pacing, frames and counting. Every line is measured in a process of its own. A session takes |N(0, s^2)|
seconds, with an s for each client; "in step" one second.

    seconds     of processor time, first event to last step
    sessions    local sessions begun; each is a handful of events
    events      taken from the timeline
    peak        resident memory beyond an interpreter that has imported fedpace
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from fedpace import algorithms
from fedpace.compute import Request
from fedpace.record.run.history import History
from fedpace.record.run.reporter import Reporter
from fedpace.sim import Population
from fedpace.sim.prepare import prepare
from fedpace.vector import Layout, Vector

SPREAD, IN_STEP = Population.half_normal(5.0), Population.from_times(1.0)
LOCAL: dict[str, Any] = {"client_lr": 0.1, "steps": 1}
MILLION = 1_000_000
# name -> clients, server steps, algorithm, its parameters
LINES: dict[str, tuple[int, int, str, dict[str, Any]]] = {
    "FedAvg, 100 of 10,000 clients": (10_000, 100, "fedavg", {"clients_per_round": 100}),
    "FedBuff, batch, 10,000 clients": (10_000, 100, "fedbuff", {"buffer": 100, "concurrency": 1000}),
    "FedBuff, immediate, 10,000 clients": (
        10_000,
        100,
        "fedbuff",
        {"buffer": 100, "concurrency": 1000, "dispatch": "immediate"},
    ),
    "FedAsync, 10,000 clients": (10_000, 10_000, "fedasync", {"concurrency": 1000}),
    "DeFedAvg-nIID, 10,000 clients": (10_000, 3, "defedavg_niid", {"draws": 1000}),
    "DeFedAvg-IID, 10,000 clients": (10_000, 10, "defedavg_iid", {"buffer": 1000}),
    "DeFedAvg-nIID, 100,000 clients in step": (100_000, 10, "defedavg_niid", {"draws": 1000}),
    "DeFedAvg-nIID, a million clients in step": (MILLION, 10, "defedavg_niid", {"draws": 1000}),
    "FedBuff, 10,000 at work of 100,000": (100_000, 20, "fedbuff", {"buffer": 1000, "concurrency": 10_000}),
    "FedBuff, 10,000 at work of a million": (MILLION, 20, "fedbuff", {"buffer": 1000, "concurrency": 10_000}),
    "FedBuff, a million clients, 100 steps": (
        MILLION,
        100,
        "fedbuff",
        {"buffer": 1000, "concurrency": 10_000},
    ),
}


class Free:
    """A task whose solve costs nothing."""

    name, layout = "free", Layout.of({"x": (1,)})

    def __init__(self, clients: int) -> None:
        self.clients = clients
        self.delta = np.zeros(1, np.float32)

    def initial(self, seed: int) -> Vector:
        return np.zeros(1, np.float32)

    def samples(self, client: int) -> float:
        return 1.0

    def solve(self, request: Request) -> Vector:
        return self.delta

    def evaluate(self, x: Vector) -> Mapping[str, float]:
        return {"loss": 0.0}


class FreeEngine:
    name = "free"

    def __init__(self, task: Free) -> None:
        self.task = task

    def announce(self, request: Request, finish_s: float) -> None: ...

    def result(self, request: Request) -> Vector:
        return self.task.delta

    def forget(self, key: tuple[int, int]) -> None: ...

    def close(self) -> None: ...


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure(name: str) -> dict[str, float]:
    clients, steps, algorithm, settings = LINES[name]
    before, task = peak_bytes(), Free(clients)
    reporter = Reporter([History(traces=False)], task, None, steps)
    simulation = prepare(
        getattr(algorithms, algorithm)(**LOCAL, **settings),
        task,
        IN_STEP if name.endswith("in step") else SPREAD,
        FreeEngine(task),
        reporter,
        rounds=steps,
    )
    began = time.process_time()
    simulation.begin()
    simulation.run(steps)
    line = simulation.state.line
    return {
        "seconds": time.process_time() - began,
        "sessions": simulation.state.tally.sessions,
        "events": line.serial - len(line),
        "peak": peak_bytes() - before,
    }


def in_its_own_process(name: str) -> dict[str, float]:
    command = [sys.executable, __file__, "--only", name]
    found: dict[str, float] = json.loads(
        subprocess.run(command, capture_output=True, text=True, check=True).stdout
    )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", metavar="NAME", choices=LINES, help="one line, here, as JSON")
    only = parser.parse_args().only
    if only is not None:
        print(json.dumps(measure(only)))
        return
    print(f"{'':40}{'seconds':>9}{'sessions':>10}{'events':>10}{'events/s':>10}{'peak':>10}")
    for name in LINES:
        m = in_its_own_process(name)
        rate = m["events"] / m["seconds"]
        print(
            f"{name:40}{m['seconds']:9.2f}{m['sessions']:10,.0f}{m['events']:10,.0f}{rate:10,.0f}"
            f"{m['peak'] / 1e6:7,.0f} MB",
            flush=True,
        )


if __name__ == "__main__":
    main()
