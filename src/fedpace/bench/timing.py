"""Seconds of one call."""

from __future__ import annotations

import time
from collections.abc import Callable


def seconds(
    call: Callable[..., object], *args: object, clock: Callable[[], float] = time.perf_counter
) -> float:
    began = clock()
    call(*args)
    return clock() - began
