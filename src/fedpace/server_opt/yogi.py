"""FedYogi."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedpace.server_opt.moments import AdaptiveServer
from fedpace.vector import Vector


@dataclass(frozen=True, slots=True)
class Yogi(AdaptiveServer):
    """FedYogi: as FedAdam, but v moves towards Δ² by an amount that does not depend on how far away it is.

    Reddi et al., "Adaptive Federated Optimization", arXiv:2003.00295, Algorithm 2:

        m_t     = β₁ m_{t-1} + (1 − β₁) Δ_t                               b1
        v_t     = v_{t-1} − (1 − β₂) Δ_t² sign(v_{t-1} − Δ_t²)            b2
        x_{t+1} = x_t + η m_t / (√v_t + τ)                                lr, eps

    Sign: Δ_t is a displacement; it is *added*.
    Departures: v starts at 0 (the paper allows any v ≥ τ²).
    """

    loop: ClassVar[str] = "yogi"

    def _second(self, v: Vector, delta: Vector) -> Vector:
        return v - (1 - self.b2) * delta**2 * np.sign(v - delta**2)

    def _second_constants(self) -> tuple[float, ...]:
        return (1 - self.b2,)
