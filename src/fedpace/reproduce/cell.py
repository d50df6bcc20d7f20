"""The pieces an experiment is run in: one algorithm on one task with one population, for some seeds."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from fedpace.algorithm import Algorithm
from fedpace.compute import Request, Task
from fedpace.errors import require_count
from fedpace.sim import Population
from fedpace.vector import Layout, Vector, freeze


class TaskMaker(Protocol):
    """A task for each seed; a frozen value, so that it prints, compares and pickles."""

    def __call__(self, seed: int) -> Task: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One entry of a table: what is run, how long, and when it has shown what it was run for."""

    name: str
    algorithm: Algorithm
    task: TaskMaker
    rounds: int
    population: Population | None = None
    evaluate_every: int | str | None = 10
    stop_at: float | None = None  # accuracy from which on nothing is asked any more
    stop_s: float | None = None  # virtual seconds after which it has not got there
    seeds: int | None = None  # only the first so many seeds, for grids that choose a setting
    training_loss: bool = False  # also measured at the end, over everybody's data

    def __post_init__(self) -> None:
        require_count(self.rounds, "Cell.rounds")

    @property
    def key(self) -> str:
        """Names the file of its outcome; another setting has another key."""
        words = re.sub(r"[^a-z0-9.]+", "-", self.name.lower()).strip("-")
        return f"{words[:60]}-{hashlib.sha256(repr(self).encode()).hexdigest()[:10]}"


# ------------------------------------------------------------------------------------------------ tasks


@dataclass(frozen=True, slots=True)
class NamedCell:
    """A data set over clients with a network on it, split anew for every seed."""

    name: str
    partition: str
    model: str
    clients: int = 100

    def __call__(self, seed: int) -> Task:
        return _loaded(self, seed)


@lru_cache(maxsize=1)
def _loaded(what: NamedCell, seed: int) -> Task:
    from fedpace import tasks

    return tasks.load(what.name, what.clients, what.partition, what.model, seed)


@dataclass(frozen=True, slots=True)
class Exact:
    """Quadratics: centers, curvatures and weights as nested tuples, the same for every seed."""

    centers: Any
    curvatures: Any = None
    weights: Any = None

    def __call__(self, seed: int) -> Task:
        from fedpace.tasks import quadratics

        return quadratics(self.centers, self.curvatures, self.weights)


@dataclass(frozen=True, slots=True)
class TimingOnly:
    """Nothing is learned, and a solve costs nothing: what remains is who delivers when."""

    clients: int = 100

    def __call__(self, seed: int) -> Task:
        return _Idle(self.clients)


class _Idle:
    name = "timing only"
    layout = Layout.of({"x": (1,)})

    def __init__(self, clients: int):
        self.clients = clients

    def initial(self, seed: int) -> Vector:
        return freeze(np.zeros(1))

    def samples(self, client: int) -> float:
        return 1.0

    def solve(self, request: Request) -> Vector:
        return np.zeros(1)

    def evaluate(self, x: Vector) -> dict[str, float]:
        return {"loss": 0.0}

    def __repr__(self) -> str:
        return f"timing_only(clients={self.clients})"
