"""The laboratory of the asynchronous tests: exact beds, their published traces, and a way to run them."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import fedpace
from fedpace.algorithm import Algorithm
from fedpace.compute.protocol import Task
from fedpace.pace import Scripted
from fedpace.record import Run
from fedpace.sim import Population
from fedpace.tasks import quadratics

DATA = Path(__file__).parent / "data"
TABLES = DATA / "asynchronous"

Q3 = quadratics([4.0, 8.0, 16.0])
Q3_TIMES = Population.from_times((2.0, 3.0, 5.0))
Q4 = quadratics([4.0, 8.0, 16.0, -4.0])
Q4_TIMES = Population.from_times((2.0, 3.0, 5.0, 7.0))
LOCAL: dict[str, Any] = {"client_lr": 0.5, "steps": 2}  # d_i(w) = 3/4 (b_i - w)


@dataclass(frozen=True)
class Row:
    """One server step: when, who (1-based, with multiplicity), how stale, and the model after it."""

    time: float
    clients: tuple[int, ...]
    tau: tuple[int, ...]
    w: float

    def unordered(self) -> Row:
        """The same step with its members sorted, for tables that list them in the order of the draw."""
        pairs = sorted(zip(self.clients, self.tau, strict=True))
        return Row(self.time, tuple(c for c, _ in pairs), tuple(t for _, t in pairs), self.w)


def script(*groups: Sequence[int]) -> Scripted:
    """A scripted selection in the tables' 1-based numbers."""
    return Scripted([[client - 1 for client in group] for group in groups])


def run(algorithm: Algorithm, rounds: int, task: Task = Q3, devices: Population | None = Q3_TIMES) -> Run:
    return fedpace.simulate(algorithm, task, devices, rounds=rounds, keep_models=True)


def trace(
    algorithm: Algorithm, rounds: int, task: Task = Q3, devices: Population | None = Q3_TIMES
) -> list[Row]:
    """A run as the tables print it."""
    finished = run(algorithm, rounds, task, devices)
    return [
        Row(record.virtual_seconds, tuple(c + 1 for c in record.clients), record.staleness, float(x[0]))
        for record, x in zip(finished.history, finished.models or (), strict=True)
    ]


def table(name: str) -> list[dict[str, str]]:
    with open(TABLES / f"{name}.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def traces(name: str) -> dict[str, list[Row]]:
    """A table of traces by the name of the oracle; the exact fraction must be the printed decimal."""
    found: dict[str, list[Row]] = defaultdict(list)
    for row in table(name):
        exact = float(Fraction(row["w_exact"]))
        assert abs(exact - float(row["w_float"])) <= 1e-15 * abs(exact)
        members = row.get("clients") or row["S"]
        found[row["oracle"]].append(Row(float(row["time"]), ints(members), ints(row["tau"]), exact))
    return found


def ints(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split()))


def fractions(text: str) -> list[float]:
    return [float(Fraction(word)) for word in text.split()]


def unordered(rows: Iterable[Row]) -> list[Row]:
    return [row.unordered() for row in rows]
