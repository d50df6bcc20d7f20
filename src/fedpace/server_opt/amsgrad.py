"""FedAMS."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedpace import kernels
from fedpace.errors import require
from fedpace.server_opt.moments import check_adaptive
from fedpace.vector import Vector, require_finite, settle


@dataclass(frozen=True, slots=True)
class AMSGradState:
    m: Vector  # m_t
    v: Vector  # v_t
    v_hat: Vector  # the largest v so far


@dataclass(frozen=True, slots=True)
class AMSGrad:
    """FedAMS: Adam whose denominator never shrinks, so that the step of a coordinate never grows.

    Wang, Lin and Chen, "Communication-Efficient Adaptive Federated Learning", arXiv:2205.02719, Algorithm 1:

        m_t = β₁ m_{t-1} + (1 − β₁) Δ_t                                              b1
        v_t = β₂ v_{t-1} + (1 − β₂) Δ_t²                                             b2
        option 1:  v̂_t = max(v̂_{t-1}, v_t, ε),  x_{t+1} = x_t + η m_t / √v̂_t         lr, eps
        option 2:  v̂_t = max(v̂_{t-1}, v_t),     x_{t+1} = x_t + η m_t / √(v̂_t + ε)

    Sign: Δ_t is a displacement; it is *added*.
    Departures: b2 may be 1, where v stays 0 and ε alone scales the step: with b1 = 0 and ε = 1 FedAvg.
    m_0 = v_0 = v̂_0 = 0, no bias correction.
    """

    lr: float
    b1: float = 0.9
    b2: float = 0.99
    eps: float = 1e-3
    option: int = 1

    checks_itself = True

    def __post_init__(self) -> None:
        settle(self)
        check_adaptive("AMSGrad", self.lr, self.b1, self.b2, self.eps, fades=False)
        require(self.option in (1, 2), "AMSGrad.option", self.option, "1 or 2")

    @property
    def _floor_and_shift(self) -> tuple[float, float]:
        """Below what v̂ never falls, and what is added to it under the root."""
        return (self.eps, 0.0) if self.option == 1 else (0.0, self.eps)

    @property
    def _constants(self) -> tuple[float, ...]:
        return (self.lr, self.b1, 1 - self.b1, self.b2, 1 - self.b2, *self._floor_and_shift)

    def counts(self, state: AMSGradState) -> dict[str, int]:
        """Coordinates whose second moment has passed ε; where none has, this is momentum at rate η / √ε."""
        return {"above_floor": int(np.count_nonzero(state.v_hat > self.eps))}

    def init(self, x: Vector) -> AMSGradState:
        return AMSGradState(np.zeros_like(x), np.zeros_like(x), np.zeros_like(x))

    def apply(self, x: Vector, delta: Vector, state: AMSGradState) -> tuple[Vector, AMSGradState]:
        if kernels.fits(x, delta, state.m, state.v, state.v_hat):
            reads = (x, delta, state.m, state.v, state.v_hat)
            m, v, v_hat, out = kernels.stepped("amsgrad", reads, 4, self._constants)
            return out, AMSGradState(m, v, v_hat)
        floor, shift = self._floor_and_shift
        m = self.b1 * state.m + (1 - self.b1) * delta
        v = self.b2 * state.v + (1 - self.b2) * delta**2
        v_hat = np.maximum(np.maximum(state.v_hat, v), floor)
        out = x + self.lr * m / np.sqrt(v_hat + shift)
        require_finite(m, v_hat, out)
        return out, AMSGradState(m, v, v_hat)

    def spend(self, x: Vector, delta: Vector, state: AMSGradState) -> tuple[Vector, AMSGradState]:
        """`apply`, over what went in."""
        states = (state.m, state.v, state.v_hat)
        if not kernels.spendable(x, delta, *states):
            return self.apply(x, delta, state)
        kernels.overwrite("amsgrad", (x, delta, *states), (*states, delta), self._constants)
        return delta, state
