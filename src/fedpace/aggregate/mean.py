"""The plain mean of updates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fedpace.aggregate.protocol import Contribution
from fedpace.aggregate.total import Total
from fedpace.vector import Vector

StalenessWeight = Callable[[int], float]


@dataclass(frozen=True, slots=True)
class Mean:
    """Every update counts the same: Δ_t = (1/M) Σ s(τ_i) delta_i, over M updates with multiplicity.

    McMahan et al., arXiv:1602.05629, with uniform weights; with `staleness` the discount of FedBuff,
    Nguyen et al., arXiv:2106.06639, Algorithm 1.
    Sign: deltas are displacements; the server adds Δ_t.
    Departures: none. The divisor is M and not Σ s(τ_i): a discounted update is a smaller step, as in FedBuff.
    """

    staleness: StalenessWeight | None = None  # s: age in server steps -> weight; None: 1

    def init(self, x: Vector, clients: int) -> Total:
        return Total()

    def add(self, update: Contribution, start: Vector, x: Vector, state: Total) -> Total:
        discount = 1.0 if self.staleness is None else self.staleness(update.staleness)
        return state.plus(update.delta, update.count * discount, update.count)

    def result(self, state: Total) -> tuple[Vector, Total]:
        return state.mean(), Total()
