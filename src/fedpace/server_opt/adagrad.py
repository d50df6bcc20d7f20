"""FedAdagrad."""

from __future__ import annotations

from dataclasses import dataclass

from fedpace import kernels
from fedpace.errors import require_number
from fedpace.server_opt.moments import Moments, check_adaptive
from fedpace.vector import Vector, settle


@dataclass(frozen=True, slots=True)
class Adagrad:
    """FedAdagrad: the step of a coordinate shrinks with the sum of its squared updates.

    Reddi et al., "Adaptive Federated Optimization", arXiv:2003.00295, Algorithm 2:

        m_t     = β₁ m_{t-1} + (1 − β₁) Δ_t                  b1
        v_t     = β₂ v_{t-1} + Δ_t²                          b2 (the paper: 1)
        x_{t+1} = x_t + η m_t / (√v_t + τ)                   lr, eps

    Sign: Δ_t is a displacement; it is *added*.
    Departures: v starts at 0 (the paper allows any v ≥ τ²); b2 < 1 lets old squares fade.
    """

    lr: float
    b1: float = 0.0
    b2: float = 1.0
    eps: float = 1e-3

    checks_itself = True

    def __post_init__(self) -> None:
        settle(self)
        require_number(self.b2, "Adagrad.b2", low=0, high=1, allowed="in [0, 1]")
        check_adaptive("Adagrad", self.lr, self.b1, 0.0, self.eps)

    def init(self, x: Vector) -> Moments:
        return Moments.zeros(x)

    def apply(self, x: Vector, delta: Vector, state: Moments) -> tuple[Vector, Moments]:
        if kernels.fits(x, delta, state.m, state.v):
            constants = (self.lr, self.b1, 1 - self.b1, self.b2, 1.0, self.eps)
            return state.in_one_pass("adam", x, delta, constants)
        m = self.b1 * state.m + (1 - self.b1) * delta
        v = self.b2 * state.v + delta**2
        return Moments(m, v).step_from(x, self.lr, self.eps)
