"""What the adaptive server rules share: two moments of the updates, the step, and the range of the parameters."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedpace import kernels
from fedpace.errors import require_number
from fedpace.vector import Vector, require_finite


@dataclass(frozen=True, slots=True)
class Moments:
    m: Vector  # m_t, first moment of Δ
    v: Vector  # v_t, second moment of Δ

    @classmethod
    def zeros(cls, x: Vector) -> Moments:
        return cls(np.zeros_like(x), np.zeros_like(x))

    def step_from(self, x: Vector, lr: float, eps: float) -> tuple[Vector, Moments]:
        """x_{t+1} = x_t + η m_t / (√v_t + τ), and these moments; NotFiniteError if one of them is not finite."""
        out = x + lr * self.m / (np.sqrt(self.v) + eps)
        require_finite(self.m, self.v, out)
        return out, self

    def in_one_pass(
        self, loop: str, x: Vector, delta: Vector, constants: tuple[float, ...]
    ) -> tuple[Vector, Moments]:
        """The same by a compiled loop, for long vectors."""
        m, v, out = kernels.stepped(loop, (x, delta, self.m, self.v), 3, constants)
        return out, Moments(m, v)


def check_adaptive(rule: str, lr: float, b1: float, b2: float, eps: float) -> None:
    """Refuse parameters outside their range, by name."""
    require_number(lr, f"{rule}.lr", above=0, below=math.inf, allowed="> 0")
    require_number(b1, f"{rule}.b1", low=0, below=1, allowed="in [0, 1)")
    require_number(b2, f"{rule}.b2", low=0, below=1, allowed="in [0, 1)")
    require_number(eps, f"{rule}.eps", above=0, below=math.inf, allowed="> 0")
