"""A task on which nothing is computed: only the clock runs, which is all that delays depend on."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from fedpace.compute import Request, Task
from fedpace.vector import Layout, Vector


class Idle:
    """As many clients with as much data and a model as large as another task's; every update is zero."""

    def __init__(
        self, clients: int, samples: Callable[[int], float], layout: Layout, dtype: type = np.float32
    ):
        self.name, self.clients, self.samples, self.layout = "idle", clients, samples, layout
        self._zero: Vector = np.zeros(layout.size, dtype)

    @classmethod
    def like(cls, task: Task) -> Idle:
        return cls(task.clients, task.samples, task.layout, task.initial(0).dtype.type)

    def initial(self, seed: int) -> Vector:
        return self._zero.copy()

    def solve(self, request: Request) -> Vector:
        return self._zero.copy()

    def evaluate(self, x: Vector) -> Mapping[str, float]:
        return {"loss": 0.0}
