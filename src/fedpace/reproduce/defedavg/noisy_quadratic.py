"""A quadratic with noisy gradients: the smallest task in which gradient noise decides how soon a target is reached."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fedpace.compute import Request, Task
from fedpace.local import descend
from fedpace.random import stream
from fedpace.vector import Layout, Vector, freeze

SIZE = 100


@dataclass(frozen=True, slots=True)
class NoisyQuadratic:
    """f(x) = |x - 1|^2 / 2 for every client, whose gradients have noise of this variance."""

    clients: int
    variance: float

    def __call__(self, seed: int) -> Task:
        return _Quadratic(self.clients, self.variance)


class _Quadratic:
    """x = 0 at first and |∇f|^2 = 1: entries of the minimum are 1 / sqrt(size).

    `accuracy` is 1 - |∇f(x)|^2, so that a target of 0.99 is a hundredth of the squared gradient norm, which is what the
    theorems bound.
    """

    name, layout = "noisy quadratic", Layout.of({"x": (SIZE,)})

    def __init__(self, clients: int, variance: float) -> None:
        self.clients, self.variance = clients, variance
        self.minimum = np.full(SIZE, 1 / math.sqrt(SIZE))

    def initial(self, seed: int) -> Vector:
        return freeze(np.zeros(SIZE))

    def samples(self, client: int) -> float:
        return 1.0

    def solve(self, request: Request) -> Vector:
        rng = stream(request.seed, "batches", request.client, request.session)
        noise = rng.normal(0.0, math.sqrt(self.variance / SIZE), (request.steps, SIZE))
        start = np.asarray(request.start, np.float64)
        return descend(lambda y, k: y - self.minimum + noise[k], start, request.local, request.steps)

    def evaluate(self, x: Vector) -> Mapping[str, float]:
        squared = float(np.sum((x - self.minimum) ** 2))
        return {"loss": squared / 2, "accuracy": 1 - squared}

    def __repr__(self) -> str:
        return f"noisy_quadratic(clients={self.clients}, variance={self.variance:g})"
