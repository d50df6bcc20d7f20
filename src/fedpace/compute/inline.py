"""The reference engine: local training when its result is asked for, one thread, in this process."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedpace.compute.protocol import Key, Request, Task
from fedpace.compute.threads import one_thread
from fedpace.local import SGD, Stopped
from fedpace.vector import Vector


def solve(task: Task, request: Request) -> Vector:
    """delta of one request, bit-identical wherever it is computed."""
    if not request.steps:
        return np.zeros_like(request.start)
    with one_thread():
        return task.solve(request)


def solve_until(task: Task, request: Request, stopped: Stopped) -> tuple[Vector, int]:
    """(delta, steps taken), bit-identical to `solve` with that many steps: all of them unless `stopped()` says so.

    A task that cannot be stopped is asked for the whole session, unless it is stopped before it begins.
    """
    train_until: Any = getattr(task, "train_until", None)
    if not request.steps or (train_until is None and stopped()):
        return np.zeros_like(request.start), 0
    if train_until is None:
        return solve(task, request), request.steps
    with one_thread():
        delta, taken = train_until(request, stopped)
    return delta, taken


class Inline:
    rounding = ""

    def __init__(self, task: Task) -> None:
        self.name, self.task = "inline", task

    def warm_up(self, local: SGD) -> None:
        """Compile and set up what the first session would wait for, where the task knows how to."""
        warm_up: Any = getattr(self.task, "warm_up", None)
        if warm_up is not None:
            with one_thread():
                warm_up(local)

    def announce(self, request: Request, finish_s: float) -> None:
        pass

    def result(self, request: Request) -> Vector:
        return solve(self.task, request)

    def forget(self, key: Key) -> None:
        pass

    def close(self) -> None:
        pass
