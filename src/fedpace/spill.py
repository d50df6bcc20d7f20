"""Vectors on disk that look like vectors in memory: for the memories of very many clients."""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from fedpace.errors import ConfigError
from fedpace.vector import Vector

SMALL_BYTES = 1 << 12  # not worth a place in a file
LONG_BYTES = 1 << 22  # worth a call of the system
PART = 1 << 23  # entries written or read at a time


class Slab:
    """Keeps vectors in nameless files in `folder`, `rows` of them to a file.

    What `keep` returns is a read-only array that reads from the file; its place is free again when the
    array is no longer referenced, and the files vanish with the process, however it ends.
    """

    def __init__(self, folder: str, rows: int = 64) -> None:
        self.folder, self.rows = folder, rows
        self._free: dict[tuple[int, str], list[Vector]] = {}
        if not os.path.isdir(folder):
            raise ConfigError(f"spill must be a folder that exists; got {folder!r}")

    def keep(self, value: Any) -> Any:
        """The same value with its long vectors, in dataclasses too, on disk."""
        if isinstance(value, np.ndarray):
            return value if value.nbytes < SMALL_BYTES else self._keep(value)
        if is_dataclass(value) and not isinstance(value, type):
            parts = {f.name: getattr(value, f.name) for f in fields(value)}
            return replace(value, **{name: self.keep(part) for name, part in parts.items()})
        return value

    def _keep(self, v: Vector) -> Vector:
        free = self._free.setdefault((v.size, v.dtype.str), [])
        if not free:
            free += self._new_rows(v)
        place = free.pop()
        for part in _parts(v):
            place[part] = v[part]
            if v.nbytes >= LONG_BYTES:
                _let_go(place)
        view = place.view()
        view.flags.writeable = False
        weakref.finalize(view, free.append, place).atexit = False
        return view

    def _new_rows(self, like: Vector) -> list[Vector]:
        with tempfile.TemporaryFile(dir=self.folder) as file:
            file.truncate(self.rows * like.nbytes)
            return list(np.memmap(file, like.dtype, "r+", shape=(self.rows, like.size)))


def plus(v: Vector, kept: Vector) -> Vector:
    """v + kept, as a new vector; of a long one on disk no more than a part is in memory at a time."""
    if kept.nbytes < LONG_BYTES or not hasattr(kept.base, "_mmap"):
        return v + kept
    total = np.empty_like(v)
    for part in _parts(v):
        np.add(v[part], kept[part], out=total[part])
        _let_go(kept.base)
    return total


def _parts(v: Vector) -> Iterator[slice]:
    for low in range(0, v.size, PART):
        yield slice(low, low + PART)


def _let_go(row: Any) -> None:
    """Leave a file's pages to the system, which may write them back: read again, they come from there."""
    if hasattr(mmap, "MADV_DONTNEED"):  # not on Windows
        row._mmap.madvise(mmap.MADV_DONTNEED)
