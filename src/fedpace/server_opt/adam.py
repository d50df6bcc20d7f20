"""FedAdam."""

from __future__ import annotations

from dataclasses import dataclass

from fedpace import kernels
from fedpace.server_opt.moments import Moments, check_adaptive
from fedpace.vector import Vector, settle


@dataclass(frozen=True, slots=True)
class Adam:
    """FedAdam: Adam on the mean client displacement Δ_t.

    Reddi et al., "Adaptive Federated Optimization", arXiv:2003.00295, Algorithm 2:

        m_t     = β₁ m_{t-1} + (1 − β₁) Δ_t                  b1
        v_t     = β₂ v_{t-1} + (1 − β₂) Δ_t²                 b2
        x_{t+1} = x_t + η m_t / (√v_t + τ)                   lr, eps

    Sign: Δ_t is a displacement, not a gradient; it is *added*.
    Departures: v starts at 0 (the paper allows any v ≥ τ²). No bias correction, as in the paper; Kingma and
    Ba's Adam has one.
    """

    lr: float
    b1: float = 0.9
    b2: float = 0.99
    eps: float = 1e-3

    checks_itself = True

    def __post_init__(self) -> None:
        settle(self)
        check_adaptive("Adam", self.lr, self.b1, self.b2, self.eps)

    def init(self, x: Vector) -> Moments:
        return Moments.zeros(x)

    def apply(self, x: Vector, delta: Vector, state: Moments) -> tuple[Vector, Moments]:
        if kernels.fits(x, delta, state.m, state.v):
            constants = (self.lr, self.b1, 1 - self.b1, self.b2, 1 - self.b2, self.eps)
            return state.in_one_pass("adam", x, delta, constants)
        m = self.b1 * state.m + (1 - self.b1) * delta
        v = self.b2 * state.v + (1 - self.b2) * delta**2
        return Moments(m, v).step_from(x, self.lr, self.eps)
