"""What FedAdam, FedYogi and FedAdagrad share: all but how the second moment follows the updates."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedpace import kernels
from fedpace.errors import require_number
from fedpace.vector import Vector, require_finite, settle


@dataclass(frozen=True, slots=True)
class Moments:
    m: Vector  # m_t, first moment of Δ
    v: Vector  # v_t, second moment of Δ


@dataclass(frozen=True, slots=True)
class AdaptiveServer:
    """Reddi et al., "Adaptive Federated Optimization", arXiv:2003.00295, Algorithm 2:

    m_t     = β₁ m_{t-1} + (1 − β₁) Δ_t                  b1
    v_t     = second(v_{t-1}, Δ_t)                       b2
    x_{t+1} = x_t + η m_t / (√v_t + τ)                   lr, eps
    """

    lr: float
    b1: float = 0.9
    b2: float = 0.99
    eps: float = 1e-3

    checks_itself = True
    loop: ClassVar[str]  # of `kernels`, for long vectors: the same in one pass
    fades: ClassVar[bool] = True  # b2 = 1 is not allowed

    def __post_init__(self) -> None:
        settle(self)
        check_adaptive(type(self).__name__, self.lr, self.b1, self.b2, self.eps, fades=self.fades)

    def init(self, x: Vector) -> Moments:
        return Moments(np.zeros_like(x), np.zeros_like(x))

    def apply(self, x: Vector, delta: Vector, state: Moments) -> tuple[Vector, Moments]:
        if kernels.fits(x, delta, state.m, state.v):
            m, v, out = kernels.stepped(self.loop, (x, delta, state.m, state.v), 3, self._constants)
            return out, Moments(m, v)
        m = self.b1 * state.m + (1 - self.b1) * delta
        v = self._second(state.v, delta)
        out = x + self.lr * m / (np.sqrt(v) + self.eps)
        require_finite(m, v, out)
        return out, Moments(m, v)

    def spend(self, x: Vector, delta: Vector, state: Moments) -> tuple[Vector, Moments]:
        """`apply`, over what went in."""
        if not kernels.spendable(x, delta, state.m, state.v):
            return self.apply(x, delta, state)
        kernels.overwrite(self.loop, (x, delta, state.m, state.v), (state.m, state.v, delta), self._constants)
        return delta, state

    @property
    def _constants(self) -> tuple[float, ...]:
        return (self.lr, self.b1, 1 - self.b1, *self._second_constants(), self.eps)

    @abstractmethod
    def _second(self, v: Vector, delta: Vector) -> Vector:
        """v_t from v_{t-1} and Δ_t."""

    @abstractmethod
    def _second_constants(self) -> tuple[float, ...]:
        """The constants of `_second`, as the loop takes them."""


def check_adaptive(rule: str, lr: float, b1: float, b2: float, eps: float, *, fades: bool = True) -> None:
    """Refuse parameters outside their range, by name; b2 may be 1 where old squares need not fade."""
    require_number(lr, f"{rule}.lr", above=0, below=math.inf, allowed="> 0")
    require_number(b1, f"{rule}.b1", low=0, below=1, allowed="in [0, 1)")
    if fades:
        require_number(b2, f"{rule}.b2", low=0, below=1, allowed="in [0, 1)")
    else:
        require_number(b2, f"{rule}.b2", low=0, high=1, allowed="in [0, 1]")
    require_number(eps, f"{rule}.eps", above=0, below=math.inf, allowed="> 0")
