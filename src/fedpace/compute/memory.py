"""Memory that a run frees and needs again at once."""

from __future__ import annotations

import ctypes
from functools import cache

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
REUSED_BYTES, LARGE_BYTES = 1 << 29, 1 << 28


@cache
def keep_freed() -> bool:
    """Let the C library keep what is freed, once per process; whether it can.

    Every frame and update is a vector that lives for a moment. By default glibc gives such memory back
    to the system at once, which then clears it page by page for the next one: for vectors of a megabyte that
    costs several times as much as writing them.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # another C library
        return False
    return bool(mallopt(TRIM_THRESHOLD, REUSED_BYTES) and mallopt(MMAP_THRESHOLD, LARGE_BYTES))
