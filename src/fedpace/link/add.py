"""Sums of what came over a link."""

from __future__ import annotations

import numpy as np

from fedpace.link.wire.values import finite
from fedpace.vector import Vector


def add(held: Vector, change: Vector) -> Vector:
    """held + change in the type of what is held; NonFiniteError if a sum is out of its range.

    Nothing is held yet where `held` is empty.
    """
    with np.errstate(over="ignore"):
        total = held + change if held.size else change
        return finite(total.astype(held.dtype, copy=False), "a sum of received values")
