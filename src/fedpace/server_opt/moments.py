"""What the adaptive server rules share: two moments of the updates, and the range of their parameters."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedpace.errors import require_number
from fedpace.vector import Vector


@dataclass(frozen=True, slots=True)
class Moments:
    m: Vector  # m_t, first moment of Δ
    v: Vector  # v_t, second moment of Δ

    @classmethod
    def zeros(cls, x: Vector) -> Moments:
        return cls(np.zeros_like(x), np.zeros_like(x))


def check_adaptive(rule: str, lr: float, b1: float, b2: float, eps: float) -> None:
    """Refuse parameters outside their range, by name."""
    require_number(lr, f"{rule}.lr", above=0, below=math.inf, allowed="> 0")
    require_number(b1, f"{rule}.b1", low=0, below=1, allowed="in [0, 1)")
    require_number(b2, f"{rule}.b2", low=0, below=1, allowed="in [0, 1)")
    require_number(eps, f"{rule}.eps", above=0, below=math.inf, allowed="> 0")
