"""FedGM: general momentum on the server."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedpace import kernels, logs
from fedpace.errors import require_number
from fedpace.vector import Vector, require_finite, settle


@dataclass(frozen=True, slots=True)
class MomentumState:
    b: Vector | None  # b_t, the damped mean of past updates; None where nu = 0 never reads it


@dataclass(frozen=True, slots=True)
class Momentum:
    """FedGM: quasi-hyperbolic momentum on the mean client displacement Δ_t.

    Sun et al., "On the Role of Server Momentum in Federated Learning", AAAI 2024, section 3; the rule is QHM,
    Ma & Yarats, arXiv:1810.06801:

        b_{t+1} = (1 − β) Δ_t + β b_t                        beta
        h_{t+1} = (1 − ν) Δ_t + ν b_{t+1}                    nu
        x_{t+1} = x_t + η h_{t+1}                            lr

    ν = 0 is FedAvg with a server rate, ν = 1 FedAvgM, ν = β FedNAG. The weights of past updates sum to 1, so
    η is the long-run step for every (β, ν): undamped heavy ball with rate γ is lr = γ / (1 − β).
    Sign: Δ_t is a displacement and is *added* (the paper subtracts x − y).
    Departures: none. b_0 = 0, no bias correction, as in the paper's proofs.

    >>> import numpy as np
    >>> from fedpace.server_opt import Momentum
    >>> rule = Momentum(lr=1.0, beta=0.9, nu=1.0)
    >>> x = np.zeros(2)
    >>> x, state = rule.apply(x, np.array([1.0, -1.0]), rule.init(x))
    >>> x
    array([ 0.1, -0.1])
    """

    lr: float = 1.0
    beta: float = 0.0
    nu: float = 0.0

    checks_itself = True

    def __post_init__(self) -> None:
        settle(self)
        require_number(self.lr, "Momentum.lr", low=0, below=math.inf, allowed=">= 0")
        require_number(self.beta, "Momentum.beta", low=0, below=1, allowed="in [0, 1)")
        require_number(self.nu, "Momentum.nu", above=-math.inf, below=math.inf, allowed="a number")
        if not 0 <= self.nu <= 1:
            logs.warn(f"Momentum.nu is usually in [0, 1]; got {self.nu!r}", stacklevel=3)

    @property
    def remembers(self) -> bool:
        """Whether a step reads the buffer."""
        return self.nu != 0

    def init(self, x: Vector) -> MomentumState:
        return MomentumState(np.zeros_like(x) if self.remembers else None)

    def apply(self, x: Vector, delta: Vector, state: MomentumState) -> tuple[Vector, MomentumState]:
        if state.b is None:
            step = kernels.scaled(delta, self.lr)
            step += x
            require_finite(step)
            return step, state
        if kernels.fits(x, delta, state.b):
            b, out = kernels.stepped("momentum", (x, delta, state.b), 2, self._constants)
            return out, MomentumState(b)
        b = self.beta * state.b + (1 - self.beta) * delta
        h = (1 - self.nu) * delta + self.nu * b
        out = x + self.lr * h
        require_finite(b, out)
        return out, MomentumState(b)

    def spend(self, x: Vector, delta: Vector, state: MomentumState) -> tuple[Vector, MomentumState]:
        """`apply`, over what went in."""
        if not kernels.spendable(x, delta, *(() if state.b is None else (state.b,))):
            return self.apply(x, delta, state)
        if state.b is None:
            delta *= self.lr
            delta += x
            require_finite(delta)
        else:
            kernels.overwrite("momentum", (x, delta, state.b), (state.b, delta), self._constants)
        return delta, state

    @property
    def _constants(self) -> tuple[float, ...]:
        return (self.lr, self.beta, 1 - self.beta, self.nu, 1 - self.nu)
