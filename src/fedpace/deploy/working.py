"""What a client's machine computes when it is asked to: local training, its own metrics, sums for statistics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fedpace.compute.personal import PersonalTask
from fedpace.compute.protocol import Request
from fedpace.tasks.pooling import statistics_size
from fedpace.vector import Vector


def train(task: Any, request: Request, stopped: Callable[[], bool]) -> tuple[Vector, int]:
    """The displacement and its steps; stopped between two of them where the task can be."""
    if hasattr(task, "train_until"):
        delta, steps = task.train_until(request, stopped)
        return delta, steps
    return task.solve(request), request.steps


def measure(task: Any, x: Vector, statistics: Vector | None, kept: Vector | None) -> Mapping[str, float]:
    """A client's metrics of a model, or of its own where it keeps one; none where it has no test samples."""
    found: Mapping[str, float] = {}
    if getattr(task, "evaluate", None) is None:
        return found
    if isinstance(task, PersonalTask) and (own := task.personal(x, kept)) is not x:
        found = task.whole.evaluate(own)
    elif statistics is None:
        found = task.evaluate(x)
    elif statistics.size == statistics_size(getattr(task, "normalisers", {})):
        found = task.evaluate_with(x, statistics)
    return found


def add_up(task: Any, x: Vector, data: int) -> Vector | None:
    """What running statistics need of a client's samples, where its model has some."""
    sums = getattr(task, "sums", None)
    return None if sums is None else sums(x, data)
