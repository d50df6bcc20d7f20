"""FedAdagrad."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedpace.server_opt.moments import AdaptiveServer
from fedpace.vector import Vector


@dataclass(frozen=True, slots=True)
class Adagrad(AdaptiveServer):
    """FedAdagrad: the step of a coordinate shrinks with the sum of its squared updates.

    Reddi et al., "Adaptive Federated Optimization", arXiv:2003.00295, Algorithm 2:

        m_t     = β₁ m_{t-1} + (1 − β₁) Δ_t                  b1
        v_t     = β₂ v_{t-1} + Δ_t²                          b2 (the paper: 1)
        x_{t+1} = x_t + η m_t / (√v_t + τ)                   lr, eps

    Sign: Δ_t is a displacement; it is *added*.
    Departures: v starts at 0 (the paper allows any v ≥ τ²); b2 < 1 lets old squares fade.
    """

    b1: float = 0.0
    b2: float = 1.0

    loop: ClassVar[str] = "adam"
    fades: ClassVar[bool] = False

    def _second(self, v: Vector, delta: Vector) -> Vector:
        return self.b2 * v + delta**2

    def _second_constants(self) -> tuple[float, ...]:
        return self.b2, 1.0
