"""Thresholds of the lazy rules: has a value changed enough to be sent? Norms are summed in float64.

A norm may be infinite when a run diverges; such a value counts as changed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fedpace.vector import Vector

BLOCK = 1 << 17  # entries at a time, so that the float64 copy stays in the cache


@np.errstate(over="ignore")
def squared_norm(v: Vector) -> float:
    """||v||^2."""
    blocks = (v[i : i + BLOCK] for i in range(0, v.size, BLOCK))
    return float(sum(np.square(block, dtype=np.float64).sum() for block in blocks))


@np.errstate(over="ignore")
def squared_distance(x: Vector, y: Vector) -> float:
    """||x - y||^2."""
    total = 0.0
    for i in range(0, x.size, BLOCK):
        change = np.subtract(x[i : i + BLOCK], y[i : i + BLOCK], dtype=np.float64)
        total += float(np.square(change, out=change).sum())
    return total


def within_norm(x: Vector, y: Vector, tau: float) -> bool:
    """NLA and AA: ||x - y|| <= tau ||y||, never for tau = 0."""
    if tau <= 0:
        return False
    moved = math.sqrt(squared_distance(x, y))
    return moved <= tau * math.sqrt(squared_norm(y)) and moved < math.inf


def within_steps(x: Vector, y: Vector, tau: float, step_norms: Sequence[float], window: int) -> bool:
    """LAG: ||x - y||^2 <= tau^2 / R times the sum of the last R squared server steps."""
    if tau <= 0:
        return False
    moved = squared_distance(x, y)
    return moved <= tau**2 * sum(step_norms[:window]) / window and moved < math.inf


def per_update(constant: float, alpha: float, clients: int) -> float:
    """tau = C / (alpha n), the paper's form; n is the number of updates per server step."""
    return constant / (alpha * clients)
