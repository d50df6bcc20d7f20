"""FedDyn: the server's half of dynamic regularisation."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fedpace.errors import require_number
from fedpace.vector import Vector, settle


@dataclass(frozen=True, slots=True)
class DynamicState:
    s: Vector  # −h_t / α: what the clients' linear terms have moved in total, per client


@dataclass(frozen=True, slots=True)
class DynamicStep:
    """FedDyn: the mean client displacement Δ_t, and the sum of all past ones.

    Acar et al., arXiv:2111.04263, Algorithm 1, with s_t = −h_t / α and p the share of the clients in a round:

        s_{t+1} = s_t + p Δ_t                                share
        x_{t+1} = x_t + Δ_t + s_{t+1}

    s_t α is the mean of the clients' linear terms −g_i, clients that did not take part having g_i = 0: at rest Δ = 0
    and s = 0, hence Σ ∇F_i(x) = 0. `share` None: as the run has it.
    Sign: Δ_t is a displacement and is *added*. Departures: p is the expected share, not that of the updates which came.
    """

    share: float | None = None

    def __post_init__(self) -> None:
        settle(self)
        if self.share is not None:
            require_number(self.share, "DynamicStep.share", above=0, high=1, allowed="in (0, 1], or None")

    def for_clients(self, clients: int, per_step: int | None) -> DynamicStep:
        """The rule in a run with so many clients, `per_step` of which take part in a step (None: all)."""
        if self.share is not None:
            return self
        return replace(self, share=min(1.0, (per_step or clients) / clients))

    def init(self, x: Vector) -> DynamicState:
        return DynamicState(np.zeros_like(x))

    def apply(self, x: Vector, delta: Vector, state: DynamicState) -> tuple[Vector, DynamicState]:
        s = state.s + (1.0 if self.share is None else self.share) * delta
        return x + delta + s, DynamicState(s)
