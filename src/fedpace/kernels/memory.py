"""Long vectors from memory that is used again, with room before them for the header of a frame.

A fresh vector of hundreds of megabytes costs more than the pass that fills it: the system hands it out page by
page, each cleared first. So dropped ones are reused.

A long float32 vector lies inside a `bytes` object that nobody has seen yet, behind as many bytes as a frame's header
has. `framed` fills these in and gives the object away: the vector is its own frame, and no copy is made of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from fedpace.vector import Vector

LONG_BYTES = 1 << 22  # from here on malloc goes to the system for every vector
MAX_IDLE = 1  # blocks of one size that may lie idle
HEAD_BYTES = 20  # of a frame's header

Block = Any  # bytes, or an array where a frame's payload would not be aligned

_idle: dict[tuple[int, np.dtype[Any]], list[Block]] = {}


def empty_like(x: Vector) -> Vector:
    """As numpy's, for flat vectors: whatever is in it must be overwritten."""
    if x.nbytes < LONG_BYTES:
        return np.empty_like(x)
    idle = _idle.setdefault((x.size, x.dtype), [])
    block = idle.pop() if idle else _block(x)
    return np.asarray(_Loan(block, x.dtype, idle))


def zeros(size: int, dtype: np.dtype[Any]) -> Vector:
    """As numpy's, for flat vectors."""
    if size * dtype.itemsize < LONG_BYTES:
        return np.zeros(size, dtype)
    v = empty_like(np.broadcast_to(np.zeros(1, dtype), size))
    v.fill(0)
    return v


def framed(v: Any, head: bytes) -> bytes | None:
    """The frame whose payload `v` is, read-only from now on; None if it has none, or is no more than a part of it."""
    whole = v.base if isinstance(v.base, np.ndarray) else v
    loan = whole.base
    if not isinstance(loan, _Loan) or v.nbytes != whole.nbytes:
        return None
    frame = loan.give_away(head)
    if frame is not None:
        v.flags.writeable = whole.flags.writeable = False
    return frame


def _block(x: Vector) -> Block:
    """Bytes are cleared by the system, and not touched before they are written to."""
    return bytes(HEAD_BYTES + x.nbytes) if x.dtype == np.float32 else np.empty(x.size, x.dtype)


class _Loan:
    """The owner of a lent vector's memory; goes when the vector and every view of it are gone."""

    __slots__ = ("__array_interface__", "_block", "_home")

    def __init__(self, block: Block, dtype: np.dtype[Any], home: list[Block]) -> None:
        self._block: Block = block
        self._home: list[Block] | None = home
        at = HEAD_BYTES if isinstance(block, bytes) else 0
        self.__array_interface__ = _writable(np.frombuffer(block, dtype, offset=at))

    def give_away(self, head: bytes) -> bytes | None:
        """The block as a frame with this header; it does not come home, and is given away once."""
        if self._home is None or not isinstance(self._block, bytes):
            return None
        self._home = None
        np.asarray(_Head(self._block))[:] = np.frombuffer(head, np.uint8)
        return self._block

    def __del__(self) -> None:
        if self._home is not None and len(self._home) < MAX_IDLE:
            self._home.append(self._block)


class _Head:
    """The place of a frame's header."""

    __slots__ = ("__array_interface__",)

    def __init__(self, block: bytes) -> None:
        self.__array_interface__ = _writable(np.frombuffer(block, np.uint8, HEAD_BYTES))


def _writable(v: Vector) -> dict[str, Any]:
    """The memory of `v` as one may write to it: nobody else has seen its block."""
    interface = v.__array_interface__
    return {**interface, "data": (interface["data"][0], False)}
