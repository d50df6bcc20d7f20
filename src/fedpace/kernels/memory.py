"""Long vectors from memory that is used again.

A fresh vector of hundreds of megabytes costs more than the pass that fills it: the system hands it out page by
page, each cleared first. A server step makes up to five such vectors (AMSGrad: three states, the model, the sum) and
drops as many, so the dropped ones are reused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from fedpace.vector import Vector

LONG_BYTES = 1 << 22  # from here on malloc goes to the system for every vector
MAX_IDLE = 5  # blocks of one size that may lie idle

_idle: dict[tuple[int, np.dtype[Any]], list[Vector]] = {}


def empty_like(x: Vector) -> Vector:
    """As numpy's, for flat vectors: whatever is in it must be overwritten."""
    if x.nbytes < LONG_BYTES:
        return np.empty_like(x)
    idle = _idle.setdefault((x.size, x.dtype), [])
    block = idle.pop() if idle else np.empty(x.size, x.dtype)
    return np.asarray(_Loan(block, idle))


class _Loan:
    """The owner of a lent vector's memory; goes when the vector and every view of it are gone."""

    __slots__ = ("__array_interface__", "_block", "_home")

    def __init__(self, block: Vector, home: list[Vector]) -> None:
        self.__array_interface__ = block.__array_interface__
        self._block, self._home = block, home

    def __del__(self) -> None:
        if len(self._home) < MAX_IDLE:
            self._home.append(self._block)
