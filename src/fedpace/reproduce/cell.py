"""The pieces an experiment is run in: one algorithm on one task with one population, for some seeds."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from fedpace.algorithm import Algorithm
from fedpace.compute import Request, Task
from fedpace.errors import ConfigError, require_count
from fedpace.sim import Population
from fedpace.vector import Layout, Vector, freeze

FORMER = {"NamedTask": "Named", "CompressedModel": "Literal"}  # class names that keys once had
LATER = (", by_seed=()", ", data_seed=None")  # fields that keys have only where they are set


class TaskMaker(Protocol):
    """A task for each seed; a frozen value, so that it prints, compares and pickles."""

    def __call__(self, seed: int) -> Task: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One entry of a table: algorithm, task, length and stopping rules.

    Where every seed has data of its own and rates are tuned on each, `by_seed` has the algorithm of each seed, from
    `first_seed` on; `algorithm` is then the first of them.
    """

    name: str
    algorithm: Algorithm
    task: TaskMaker
    rounds: int
    population: Population | None = None
    evaluate_every: int | str | None = 10
    stop_at: float | None = None  # target accuracy at which the run ends
    stop_s: float | None = None  # virtual seconds after which the target counts as not reached
    seeds: int | None = None  # only the first so many: of grids, and of cells with by_seed
    training_loss: bool = False  # also evaluated at the end, over all clients' data
    by_seed: tuple[Algorithm, ...] = ()
    first_seed: int = field(default=0, repr=False)  # a judgement repeated on seeds that nobody has looked at
    # run only if --only names it: a CNN or a VGG, minutes of a core, or beside what is judged
    by_name: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        require_count(self.rounds, "Cell.rounds")
        if self.by_seed and (self.by_seed[0], len(self.by_seed)) != (self.algorithm, self.seeds):
            raise ConfigError("a Cell with by_seed must have its first as algorithm, and as many seeds")

    def algorithm_of(self, seed: int) -> Algorithm:
        return self.by_seed[seed - self.first_seed] if self.by_seed else self.algorithm

    @property
    def key(self) -> str:
        """Names the file of its outcome; another setting has another key."""
        words = re.sub(r"[^a-z0-9.]+", "-", self.name.lower()).strip("-")
        return f"{words[:60]}-{hashlib.sha256(self._text().encode()).hexdigest()[:10]}"

    @property
    def setting(self) -> str:
        """All that decides its runs: cells that differ in their names alone have the same outcomes."""
        algorithms = (self.by_seed, self.first_seed) if self.by_seed else self.algorithm
        ends = (self.rounds, self.stop_at, self.stop_s)
        return repr((algorithms, self.task, self.population, ends, self.evaluate_every, self.training_loss))

    def _text(self) -> str:
        """The repr as the first version had it, so that finished runs are found after a renaming or a new field."""
        text = repr(self)
        if self.by_seed and self.first_seed:
            # without it a seed could find the run of another one's algorithm
            text += f" from seed {self.first_seed}"
        for unset in LATER:
            text = text.replace(unset, "")
        for name, former in FORMER.items():
            text = text.replace(f"={name}(", f"={former}(")
        return text


# ------------------------------------------------------------------------------------------------ tasks


@dataclass(frozen=True, slots=True)
class NamedTask:
    """A data set over clients with a network on it, drawn and split anew for every seed, or as one seed has it."""

    name: str
    partition: str
    model: str
    clients: int = 100
    data_seed: int | None = None

    def __call__(self, seed: int) -> Task:
        return _loaded(self, seed if self.data_seed is None else self.data_seed)


@lru_cache(maxsize=1)
def _loaded(what: NamedTask, seed: int) -> Task:
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
    """No training at all: only the client timeline is simulated."""

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
