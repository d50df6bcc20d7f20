"""FedDyn: the server's half of dynamic regularisation."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fedpace.aggregate.protocol import Contribution
from fedpace.aggregate.total import Total
from fedpace.vector import Vector


@dataclass(frozen=True, slots=True)
class DynamicState:
    clients: int  # m
    s: Vector  # −h_t / α
    mean: Total = Total()  # of the step being formed
    change: Total = Total()  # Σ delta_i over its members, once each


@dataclass(frozen=True, slots=True)
class DynamicMean:
    """FedDyn: the mean of the updates, and the sum of all that came before, per client.

    Acar et al., arXiv:2111.04263, Algorithm 1, with s_t = −h_t / α and P the clients of the round, out of m:

        s_{t+1} = s_t + (1/m) Σ_P delta_i
        x_{t+1} = x_t + (1/|P|) Σ_P delta_i + s_{t+1}

    α s_t is minus the mean of all clients' linear terms g_i, whoever took part. At rest every delta_i and s are zero,
    hence Σ ∇F_i(x) = Σ g_i = 0. `local.DynamicTerm` is the clients' half.
    Sign: deltas are displacements, added. Departures: none.
    """

    def init(self, x: Vector, clients: int) -> DynamicState:
        return DynamicState(clients, np.zeros_like(x))

    def add(self, update: Contribution, start: Vector, x: Vector, state: DynamicState) -> DynamicState:
        return replace(
            state,
            mean=state.mean.plus(update.delta, update.count, update.count),
            change=state.change.plus(update.delta, 1.0, 0.0),
        )

    def result(self, state: DynamicState) -> tuple[Vector, DynamicState]:
        s = state.s if state.change.vector is None else state.s + state.change.vector / state.clients
        total = state.mean.mean()
        total += s
        return total, DynamicState(state.clients, s)

    def begun_anew(self, state: DynamicState) -> DynamicState:
        """The clients' linear terms are void: so is their sum."""
        return replace(state, s=np.zeros_like(state.s), change=Total())
