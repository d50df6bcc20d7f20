"""Sums of what came over a link."""

from __future__ import annotations

import numpy as np

from fedpace.link.values import finite
from fedpace.vector import Vector


def add(a: Vector, b: Vector) -> Vector:
    """a + b; NonFiniteError if two numbers within range have a sum that is not."""
    with np.errstate(over="ignore"):
        return finite(a + b, "a sum of received values")
