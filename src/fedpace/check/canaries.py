"""Canaries: clients that send one random direction, to see what an attacker learns of a private run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedpace.compute.protocol import Request, Task
from fedpace.privacy.audit import Audit, Flags, audited, scores
from fedpace.random import stream
from fedpace.vector import Layout, Vector, freeze


@dataclass(frozen=True, slots=True, eq=False)
class TaskWithCanaries:
    """A task whose last clients are canaries."""

    task: Task
    directions: Sequence[Vector]  # of those that are clients

    @property
    def name(self) -> str:
        return f"{self.task.name} with canaries"

    @property
    def clients(self) -> int:
        return self.task.clients + len(self.directions)

    @property
    def layout(self) -> Layout:
        return self.task.layout

    def initial(self, seed: int) -> Vector:
        return self.task.initial(seed)

    def samples(self, client: int) -> float:
        return self.task.samples(client) if client < self.task.clients else 1.0

    def solve(self, request: Request) -> Vector:
        at = request.client - self.task.clients
        return self.task.solve(request) if at < 0 else self.directions[at]

    def evaluate(self, x: Vector) -> Mapping[str, float]:
        return self.task.evaluate(x)


class Canaries:
    """`count` random directions of this length, each made a client of the task by a fair coin.

        canaries = fedpace.check.Canaries(task, length=1.0)
        run = fedpace.simulate(algorithm, canaries.task, rounds=10, keep_models=True)
        print(canaries.audit(run.models, run.privacy.delta))

    The attacker sees every released model. `length`: the algorithm's clip; longer ones show whether it clips.
    """

    def __init__(self, task: Task, length: float, *, count: int = 600, seed: int = 0) -> None:
        rng, first = stream(seed, "audit"), task.initial(seed)
        rows = rng.standard_normal((count, first.size))
        rows *= length / np.linalg.norm(rows, axis=1, keepdims=True)
        self.directions = freeze(rows.astype(first.dtype))
        self.included: Flags = rng.random(count) < 0.5
        self.initial = first
        self.task: Any = TaskWithCanaries(task, list(self.directions[self.included]))

    def audit(self, models: Sequence[Vector], delta: float, guesses: int | None = None) -> Audit:
        """Of a run with the seed of these canaries: `models` are those after every step."""
        return audited(scores(self.directions, [self.initial, *models]), self.included, delta, guesses)
