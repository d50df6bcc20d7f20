"""Where the tensors of a replay lie: memory that is planned once, and used again as soon as it is free."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

ALIGNMENT = 64  # bytes, as torch's own memory


def placed(lives: Mapping[int, tuple[int, int]], sizes: Mapping[int, int]) -> tuple[dict[int, int], int]:
    """(offset of every memory, bytes in all): `lives` are the first and the last step that use each.

    Two memories whose lives overlap, the last step of one being the first of the other included, do not share a byte.
    Each takes the smallest gap that holds it, so that what was just freed, and is in the cache, is taken first.
    """
    offsets: dict[int, int] = {}
    total = 0
    for name in sorted(lives, key=lambda name: lives[name]):
        size = -(-sizes[name] // ALIGNMENT) * ALIGNMENT
        rivals = [other for other in offsets if lives[other][1] >= lives[name][0]]
        offsets[name] = _smallest_gap(size, [(offsets[o], offsets[o] + sizes[o]) for o in rivals])
        total = max(total, offsets[name] + size)
    return offsets, total


def _smallest_gap(size: int, taken: Iterable[tuple[int, int]]) -> int:
    end, best, room = 0, -1, 0
    for low, high in sorted(taken):
        if low - end >= size and (best < 0 or low - end < room):
            best, room = end, low - end
        end = max(end, -(-high // ALIGNMENT) * ALIGNMENT)
    return end if best < 0 else best
