"""Local training of several clients as one computation, where the task can do that.

Such a task has `lane(request) -> int | None` and `solve_together(requests) -> list of deltas`. A result may not
depend on which requests shared the computation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from fedpace.compute.inline import solve
from fedpace.compute.protocol import Request, Task
from fedpace.compute.threads import one_thread
from fedpace.vector import Vector


def lane(task: Task, request: Request) -> int | None:
    """The lane of a request; None: it is computed alone."""
    find: Any = getattr(task, "lane", None)
    number: int | None = None if find is None else find(request)
    return number


def rounding(task: Task, together: bool = True) -> str:
    """What a checkpoint must know of an engine: "" where its results are those of `inline` to the bit."""
    return "vectorised" if together and getattr(task, "lanes", 1) > 1 else ""


def fitting(task: Task, first: Request, others: Iterable[Request]) -> list[Request]:
    """`first`, and those of the others that can be computed with it: same rule, every lane once."""
    own = lane(task, first)
    if own is None:
        return [first]
    taken = {own: first}
    for request in others:
        if request.local == first.local and (other := lane(task, request)) is not None:
            taken.setdefault(other, request)
    return list(taken.values())


def solve_together(task: Task, requests: Sequence[Request]) -> list[Vector]:
    """delta of each of the requests that are `fitting`."""
    if lane(task, requests[0]) is None:
        return [solve(task, request) for request in requests]
    able: Any = task
    with one_thread():
        deltas: list[Vector] = able.solve_together(requests)
        return deltas
