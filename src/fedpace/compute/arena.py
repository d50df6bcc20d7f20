"""Vectors in memory that this process shares with its workers."""

from __future__ import annotations

import mmap
from multiprocessing import heap
from typing import Any

import numpy as np

from fedpace.vector import Vector

PAGE_BYTES = 4096


class Inherited:
    """Memory for processes forked from this one."""

    def __init__(self, size_bytes: int) -> None:
        flags = mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
        self.buffer = mmap.mmap(-1, size_bytes, flags=flags)


Sent = heap.Arena  # memory that can be pickled to a process while that is being started, on every system


class Arena:
    """`slots` places for vectors of up to `size_bytes`.

    The memory has no name: the system frees it with the last process that has it, however that ends, and
    nothing can be left behind. It takes room only where it was written to, so free slots are handed out again
    last in, first out.
    """

    def __init__(self, slots: int, size_bytes: int, memory: type[Inherited] | type[Sent]) -> None:
        self._stride = -(-max(size_bytes, 1) // PAGE_BYTES) * PAGE_BYTES
        self._memory = memory(slots * self._stride)
        self._free = list(range(slots))[::-1]

    @property
    def free(self) -> int:
        return len(self._free)

    def take(self) -> int:
        return self._free.pop()

    def give_back(self, slot: int) -> None:
        self._free.append(slot)

    def view(self, slot: int, size: int, dtype: Any) -> Vector:
        """The vector in a slot; only until that is given back."""
        view: Vector = np.frombuffer(self._memory.buffer, dtype, size, slot * self._stride)
        return view


class Library:
    """Vectors that many sessions read: written once, held until their room is needed."""

    def __init__(self, arena: Arena) -> None:
        self.arena = arena
        self._slots: dict[int, int] = {}  # by identity, oldest first
        self._vectors: dict[
            int, Vector
        ] = {}  # slot -> vector: an identity is only good while its object lives
        self._readers: dict[int, int] = {}
        self._writings: dict[int, int] = {}  # slot -> the how-manieth vector of all it holds
        self._written = 0

    def lend(self, v: Vector) -> int:
        """The slot that holds `v`, until it is returned."""
        slot = self._slots.get(id(v))
        if slot is None:
            slot = self._write(v)
        self._readers[slot] += 1
        return slot

    def writing(self, slot: int) -> int:
        """A number that no other vector in this memory has had: a reader knows by it what it has seen before."""
        return self._writings[slot]

    def take_back(self, slot: int) -> None:
        self._readers[slot] -= 1

    def _write(self, v: Vector) -> int:
        if not self.arena.free:
            self._drop_oldest_unread()
        slot = self.arena.take()
        self.arena.view(slot, v.size, v.dtype)[:] = v
        self._slots[id(v)], self._vectors[slot], self._readers[slot] = slot, v, 0
        self._written += 1
        self._writings[slot] = self._written
        return slot

    def _drop_oldest_unread(self) -> None:
        identity, slot = next(item for item in self._slots.items() if not self._readers[item[1]])
        del self._slots[identity], self._vectors[slot], self._readers[slot]
        self.arena.give_back(slot)
