"""Steps over long vectors at the speed of memory: every vector is read and written once.

Rules are written as numpy formulas, which read and write a vector once per operation. That is what runs for
short vectors; from `LONG` on, the loop of the same name in `loops` does it in one pass, bit-identically.
numba is imported and the loop compiled (or loaded from its cache) when a long vector first comes by.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from fedpace.errors import NotFiniteError
from fedpace.kernels import loops
from fedpace.kernels.memory import empty_like

if TYPE_CHECKING:
    from fedpace.vector import Vector

__all__ = [
    "LONG",
    "add_scaled",
    "difference",
    "empty_like",
    "fits",
    "overwrite",
    "run",
    "scaled",
    "spendable",
    "stepped",
]

LONG = 1 << 17  # half a megabyte of float32: about where the operands leave the cache
BLOCK = 1 << 15  # entries that `overwrite` makes at a time: within the cache


def fits(*vectors: Vector) -> bool:
    """Whether the loops take these: long, contiguous, of one floating type."""
    first = vectors[0]
    return first.size >= LONG and all(v.dtype == first.dtype and v.flags.c_contiguous for v in vectors)


def spendable(x: Vector, *owned: Vector) -> bool:
    """Whether the loops take these, and may write over all but the first."""
    return fits(x, *owned) and all(v.flags.writeable for v in owned)


def scaled(v: Vector, factor: float) -> Vector:
    """factor * v, as a new vector."""
    return np.multiply(v, factor, out=empty_like(v))


def difference(v: Vector, other: Vector) -> Vector:
    """v - other, as a new vector."""
    return np.subtract(v, other, out=empty_like(v))


def add_scaled(total: Vector, v: Vector, factor: float) -> None:
    """total += factor * v."""
    if factor == 1.0:
        total += v
    elif fits(total, v):
        run("add_scaled", (v,), (total,), (factor,))
    else:
        total += factor * v


def stepped(name: str, reads: tuple[Vector, ...], writes: int, constants: tuple[float, ...]) -> list[Vector]:
    """What the loop `name` writes, as that many new vectors; NotFiniteError if not all of it is finite."""
    made = [empty_like(reads[0]) for _ in range(writes)]
    if run(name, reads, tuple(made), constants):
        raise NotFiniteError(f"{name}: the next model or its state is not finite")
    return made


def overwrite(
    name: str, reads: tuple[Vector, ...], owned: tuple[Vector, ...], constants: tuple[float, ...]
) -> None:
    """What the loop `name` writes, over the vectors `owned`, which may be among those it reads.

    NotFiniteError if not all of it is finite; then nothing was written. So it is made twice, block by block: that reads
    twice, but needs no memory.
    """
    room = [np.empty(BLOCK, v.dtype) for v in owned]
    for writing in (False, True):
        for low in range(0, reads[0].size, BLOCK):
            parts = tuple(v[low : low + BLOCK] for v in reads)
            made = tuple(v[: parts[0].size] for v in room)
            if run(name, parts, made, constants):
                raise NotFiniteError(f"{name}: the next model or its state is not finite")
            if writing:
                for v, new in zip(owned, made, strict=True):
                    v[low : low + BLOCK] = new


def run(
    name: str, reads: tuple[Vector, ...], writes: tuple[Vector, ...], constants: tuple[float, ...]
) -> int:
    """The compiled loop `name`; constants are rounded to the vectors' type first, as numpy does."""
    dtype = writes[0].dtype
    loop = _compiled(name, dtype, len(reads), len(writes), len(constants) + 1)
    return loop(*reads, *writes, (*map(dtype.type, constants), np.finfo(dtype).max))


@cache
def _compiled(name: str, dtype: np.dtype[Any], reads: int, writes: int, constants: int) -> Callable[..., int]:
    import numba

    scalar = numba.from_dtype(dtype)
    read = numba.types.Array(scalar, 1, "C", readonly=True)
    written = numba.types.Array(scalar, 1, "C")
    given = numba.types.UniTuple(scalar, constants)  # type: ignore[no-untyped-call]
    signature = numba.int64(*[read] * reads, *[written] * writes, given)
    function = getattr(loops, name)
    # numpy's error model: a division that may be by zero is no branch, which is what lets LLVM vectorise
    try:
        return numba.njit(signature, cache=True, error_model="numpy", nogil=True)(function)
    except RuntimeError:  # no directory to cache in
        return numba.njit(signature, error_model="numpy", nogil=True)(function)
