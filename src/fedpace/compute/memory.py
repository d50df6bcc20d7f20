"""Memory that a run frees and needs again at once."""

from __future__ import annotations

import ctypes
from functools import cache

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
REUSED_BYTES, LARGE_BYTES = 1 << 29, 1 << 28
HUGE_PAGE, ADVISE_HUGE = 1 << 21, 14  # of Linux's mman.h


@cache
def keep_freed() -> bool:
    """Let the C library keep what is freed, once per process; whether it can.

    Every frame and update is a vector that lives for a moment. By default glibc gives such memory back
    to the system at once, which then clears it page by page for the next one: for vectors of a megabyte that
    costs several times as much as writing them.
    """
    try:
        library = ctypes.CDLL(None)
        kept = library.mallopt(TRIM_THRESHOLD, REUSED_BYTES) and library.mallopt(MMAP_THRESHOLD, LARGE_BYTES)
        if kept:
            _ask_for_large_pages(library)
    except (OSError, AttributeError, TypeError):  # another C library
        return False
    return bool(kept)


def _ask_for_large_pages(library: ctypes.CDLL) -> None:
    """Let the heap grow once by as much as it would in parts, and ask for pages of 2 MB there.

    No memory is taken by that: pages come when they are first written. Activations of some megabytes lie in hundreds
    of small pages, more than the processor remembers the places of; where the system has no large ones, or
    another way to grow, nothing changes.
    """
    library.sbrk.restype = library.malloc.restype = ctypes.c_void_p
    library.malloc.argtypes, library.free.argtypes = [ctypes.c_size_t], [ctypes.c_void_p]
    library.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    before = library.sbrk(0)
    library.free(library.malloc(LARGE_BYTES - HUGE_PAGE))
    low, high = -(-before // HUGE_PAGE) * HUGE_PAGE, library.sbrk(0) // HUGE_PAGE * HUGE_PAGE
    if high > low:
        library.madvise(low, high - low, ADVISE_HUGE)
