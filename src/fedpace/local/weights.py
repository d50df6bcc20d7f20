"""How much each local gradient weighs in a client's update: Wang et al., arXiv:2007.07481, App. B.

A solver that is linear in its gradients ends at delta = −η Σ_k a_k g_k. Writing α = η μ, c_k for the schedule
and P_s = Π_{j>s} (1 − α c_j) for the share of step s that the proximal pull leaves,

    a_k = Σ_{s≥k} c_s P_s ρ^{s−k}                    momentum
    a_k = c_k P_k + ρ Σ_{s≥k} c_s P_s ρ^{s−k}        Nesterov

which for one of the three alone is the closed form of the table in App. B.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedpace.vector import Vector


@dataclass(frozen=True, slots=True)
class SolverShape:
    """All that decides a_i."""

    steps: int  # K
    momentum: float = 0.0  # ρ
    nesterov: bool = False
    alpha: float = 0.0  # η μ
    factors: tuple[float, ...] | None = None  # c_0 .. c_{K-1}; None: all 1


def norm1(shape: SolverShape) -> float:
    """||a||_1: in closed form for plain and proximal steps, else by the on-line recursion."""
    if shape.momentum or shape.factors is not None:
        return online_norm1(shape)
    if shape.alpha:
        return -math.expm1(shape.steps * math.log1p(-shape.alpha)) / shape.alpha
    return float(shape.steps)


def online_norm1(shape: SolverShape) -> float:
    """||a||_1 accumulated while stepping: u ← ρ u + 1, A ← (1 − α c_k) A + c_k u (Nesterov: c_k (1 + ρ u)).

    Valid for momentum and proximal pull together, where (1 − α)(A + u) + 1 of the public FedNova code is not.
    """
    rho, total, u = shape.momentum, 0.0, 0.0
    for k in range(shape.steps):
        c = 1.0 if shape.factors is None else shape.factors[k]
        u = rho * u + 1.0
        total = (1.0 - shape.alpha * c) * total + c * (1.0 + rho * u if shape.nesterov else u)
    return total


def vector(shape: SolverShape) -> Vector:
    """a_0 .. a_{K-1}."""
    rho, age = shape.momentum, np.arange(shape.steps, 0, -1, dtype=np.float64)  # age_k = K − k
    if shape.factors is not None or (rho and shape.alpha):
        return _backward(shape)
    if rho:
        return (1.0 - rho ** (age + shape.nesterov)) / (1.0 - rho)
    return np.power(1.0 - shape.alpha, age - 1.0)


def _backward(shape: SolverShape) -> Vector:
    """The general sum, from the last step to the first."""
    a = np.empty(shape.steps)
    left, tail = 1.0, 0.0  # P_k and Σ_{s≥k} c_s P_s ρ^{s−k}
    for k in reversed(range(shape.steps)):
        c = 1.0 if shape.factors is None else shape.factors[k]
        tail = c * left + shape.momentum * tail
        a[k] = c * left + shape.momentum * tail if shape.nesterov else tail
        left *= 1.0 - shape.alpha * c
    return a
