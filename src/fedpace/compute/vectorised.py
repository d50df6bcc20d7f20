"""Many clients' local training as one computation: the first request asked for takes others along."""

from __future__ import annotations

import numpy as np

from fedpace.compute.protocol import Key, Request, Task
from fedpace.compute.together import fitting, rounding, solve_together
from fedpace.vector import Vector


class Vectorised:
    """One process; announced requests are computed with the first of them that is needed."""

    def __init__(self, task: Task) -> None:
        self.name, self.task, self.rounding = "vectorised", task, rounding(task)
        self._announced: dict[tuple[int, int], tuple[float, Request]] = {}
        self._done: dict[tuple[int, int], tuple[Request, Vector]] = {}

    def announce(self, request: Request, finish_s: float) -> None:
        if request.steps:
            self._announced[request.key] = finish_s, request

    def result(self, request: Request) -> Vector:
        if not request.steps:
            return np.zeros_like(request.start)
        asked, delta = self._done.pop(request.key, (None, None))
        if delta is None or asked is None or not request.same_as(asked):
            self._solve(request)
            _, delta = self._done.pop(request.key)
        return delta

    def forget(self, key: Key) -> None:
        self._announced.pop(key, None)
        self._done.pop(key, None)

    def close(self) -> None:
        self._announced.clear()
        self._done.clear()

    def _solve(self, request: Request) -> None:
        """`request`, and those that fit, the soonest needed first."""
        self._announced.pop(request.key, None)
        soonest = sorted(self._announced.values(), key=lambda item: item[0])
        group = fitting(self.task, request, (other for _, other in soonest))
        for member, delta in zip(group, solve_together(self.task, group), strict=True):
            self._announced.pop(member.key, None)
            self._done[member.key] = member, delta
