"""Run by test_ray.py in a process of its own: what a Ray engine promises, as JSON in a file."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
from tests.compute.marked import Marks, ask, expected

import fedpace
from fedpace import algorithms, tasks
from fedpace.cli import main
from fedpace.compute import engine
from fedpace.sim import Population

COMMON: dict[str, Any] = {"client_lr": 0.1, "batch_size": 8}
ROUNDS: dict[str, Any] = {**COMMON, "epochs": 1, "clients_per_round": 4}
ALGORITHMS = {
    "fedavg": algorithms.fedavg(**ROUNDS),
    "fedgm": algorithms.fedgm(**ROUNDS),
    "fednova": algorithms.fednova(**(ROUNDS | {"epochs": (1, 4)})),
    "scaffold": algorithms.scaffold(**ROUNDS),
    "ca2fl": algorithms.ca2fl(**COMMON, epochs=1, buffer=3, concurrency=5),
    "defedavg_niid": algorithms.defedavg_niid(**COMMON, steps=4, draws=3),
    "two_way": algorithms.two_way(memory="ef", **ROUNDS),
}


def same_bits() -> dict[str, bool]:
    task = tasks.load("digits", clients=12, partition="dirichlet:0.5", model="mlp", seed=1)
    devices = Population.half_normal(2.0)
    same = {}
    for name, algorithm in ALGORITHMS.items():
        one, other = (
            fedpace.simulate(algorithm, task, devices, rounds=3, seed=3, compute=compute, workers=2)
            for compute in ("inline", "ray")
        )
        same[name] = np.array_equal(one.model, other.model) and one.history == other.history
    return same


def survives_a_kill(folder: Path) -> bool:
    def before(request: Any) -> None:
        mark = folder / f"{request.client}"
        if request.client % 3 == 0 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    solver = engine("ray", Marks(before), 2)
    requests = [ask(client) for client in range(6)]
    for request in requests:
        solver.announce(request, 1.0)
    right = all(np.array_equal(solver.result(request), expected(request)) for request in requests)
    solver.close()
    return right and len(list(folder.iterdir())) == 2


def keeps_its_word() -> bool:
    """Never announced, announced otherwise, forgotten."""
    solver = engine("ray", Marks(), 1)
    solver.announce(ask(1, steps=9), 1.0)
    solver.announce(ask(2), 1.0)
    solver.forget(ask(2).key)
    asked = [ask(1, steps=4), ask(2), ask(3, correction=np.full(5, 0.5)), ask(4, steps=0)]
    found = [solver.result(request) for request in asked]
    solver.close()
    return all(map(np.array_equal, found[:3], map(expected, asked[:3]))) and not found[3].any()


def sweeps(folder: Path) -> dict[str, list[list[str]]]:
    """Settings and accuracy of every point, found by processes of this machine and by Ray's."""
    common = (
        "sweep fedavg --grid client_lr=0.01,0.1 --clients 5 --model softmax --rounds 2 --no-store --quiet"
    )
    points: dict[str, list[list[str]]] = {}
    for compute in ("auto", "ray"):
        table = folder / f"{compute}.csv"
        main([*common.split(), "--compute", compute, "--processes", "2", "--csv", str(table)])
        points[compute] = [line.split(",")[:2] for line in table.read_text().splitlines()]
    return points


if __name__ == "__main__":
    killed, answer = map(Path, sys.argv[1:])
    facts: dict[str, Any] = {"same": same_bits(), "kill": survives_a_kill(killed), "word": keeps_its_word()}
    facts["sweeps"] = sweeps(answer.parent)
    answer.write_text(json.dumps(facts))  # Ray writes to standard output
