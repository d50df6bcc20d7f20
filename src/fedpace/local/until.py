"""Training that can be stopped between two local steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import takewhile
from typing import TypeVar

T = TypeVar("T")
Stopped = Callable[[], bool]


def until(stopped: Stopped | None, steps: Iterable[T]) -> Iterable[T]:
    """`steps` one by one; `stopped` is asked before each of them, never after the last. None: all of them."""
    return steps if stopped is None else takewhile(lambda _: not stopped(), steps)
