"""Garbage collection while a simulation runs."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

RARELY = 1000  # collections of younger objects before one of all; 10 by default
MANY = 20_000  # new objects before a collection of them; 700 by default


@contextmanager
def collected_rarely() -> Iterator[None]:
    """Look for cycles more rarely, and among old objects far more rarely.

    Those of a simulation are its clients, ten million objects where there are a million clients, none of them
    garbage: looking through them took a tenth of the time, and through new ones a twentieth.
    """
    young, middle, old = gc.get_threshold()
    gc.set_threshold(max(young, MANY) if young else 0, middle, max(old, RARELY))  # 0: never
    try:
        yield
    finally:
        gc.set_threshold(young, middle, old)
