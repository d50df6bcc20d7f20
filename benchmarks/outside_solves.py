"""Where the time of a round goes beside local solves: python benchmarks/outside_solves.py [W1 W2 W3 ...]

One process, no evaluation. The parts of a session are timed where the simulator calls them; each line is
microseconds per session and its share of everything.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import fedpace
from fedpace.aggregate import Mean
from fedpace.bench.workloads import PER_ROUND, WORKLOADS
from fedpace.link.uplinks.plain import Plain
from fedpace.server.machine import Server
from fedpace.tasks.torch_task import TorchTask

PARTS = {
    "local solves": (TorchTask, "solve"),
    "writing frames": (Plain, "send"),
    "reading and checking frames": (Plain, "receive"),
    "adding to the mean": (Mean, "add"),
    "server steps": (Server, "_step"),
}
ROUNDS = {"W1": 600, "W2": 3, "W3": 30}
seconds: Counter[str] = Counter()


def timed(part: str, method: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **more: Any) -> Any:
        began = time.perf_counter()
        try:
            return method(*args, **more)
        finally:
            seconds[part] += time.perf_counter() - began

    return call


def measure(name: str) -> None:
    workload, rounds = WORKLOADS[name], ROUNDS[name]
    task, algorithm = workload.make_task(), workload.make_algorithm()
    for client in range(task.clients):
        task.client_data(client)
    fedpace.simulate(algorithm, task, rounds=2, evaluate_every=None, traces=False)
    seconds.clear()
    began = time.perf_counter()
    fedpace.simulate(algorithm, task, rounds=rounds, evaluate_every=None, traces=False)
    whole = time.perf_counter() - began
    seconds["everything else"] = whole - sum(seconds.values())
    print(f"{name}: {1e3 * whole / rounds:.2f} ms per round")
    for part, taken in seconds.most_common():
        print(f"  {part:<28} {1e6 * taken / rounds / PER_ROUND:10.1f} us {taken / whole:7.2%}")


if __name__ == "__main__":
    for part, (owner, method) in PARTS.items():
        setattr(owner, method, timed(part, getattr(owner, method)))
    for workload in sys.argv[1:] or ROUNDS:
        measure(workload)
