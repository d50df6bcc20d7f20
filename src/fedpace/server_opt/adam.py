"""FedAdam."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedpace.server_opt.moments import AdaptiveServer
from fedpace.vector import Vector


@dataclass(frozen=True, slots=True)
class Adam(AdaptiveServer):
    """FedAdam: Adam on the mean client displacement Δ_t.

    Reddi et al., "Adaptive Federated Optimization", arXiv:2003.00295, Algorithm 2:

        m_t     = β₁ m_{t-1} + (1 − β₁) Δ_t                  b1
        v_t     = β₂ v_{t-1} + (1 − β₂) Δ_t²                 b2
        x_{t+1} = x_t + η m_t / (√v_t + τ)                   lr, eps

    Sign: Δ_t is a displacement, not a gradient; it is *added*.
    Departures: v starts at 0 (the paper allows any v ≥ τ²). No bias correction, as in the paper; Kingma and
    Ba's Adam has one.

    >>> import numpy as np
    >>> from fedpace.server_opt import Adam
    >>> rule = Adam(lr=0.1, b1=0.0, b2=0.0)
    >>> x = np.zeros(2)
    >>> rule.apply(x, np.array([1.0, -4.0]), rule.init(x))[0].round(3)
    array([ 0.1, -0.1])
    """

    loop: ClassVar[str] = "adam"

    def _second(self, v: Vector, delta: Vector) -> Vector:
        return self.b2 * v + (1 - self.b2) * delta**2

    def _second_constants(self) -> tuple[float, ...]:
        return self.b2, 1 - self.b2
