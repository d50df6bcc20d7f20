"""How far workers run ahead: orders queued at each, and finished results that wait to be asked for."""

from __future__ import annotations

AHEAD_BYTES = 1 << 28  # of finished results that wait to be asked for
MAX_AHEAD = 1024
SMALL_BYTES = 1 << 20  # a vector up to this size means short sessions


def orders_per_worker(size_bytes: int, together: bool = False) -> int:
    """One in progress, and a queue for while the process that sends them is busy."""
    return 32 if together else 8 if size_bytes <= SMALL_BYTES else 2


def waiting_results(size_bytes: int, workers: int, together: bool = False) -> int:
    """Results of this size that there is room for."""
    under_way = workers * orders_per_worker(size_bytes, together)
    return min(MAX_AHEAD, max(2 * under_way, AHEAD_BYTES // size_bytes))
