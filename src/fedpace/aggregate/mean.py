"""The plain mean of updates."""

from __future__ import annotations

from dataclasses import dataclass

from fedpace.aggregate.protocol import Contribution
from fedpace.aggregate.staleness import Weight, discount, staleness_weight
from fedpace.aggregate.total import Total
from fedpace.vector import Vector


@dataclass(frozen=True, slots=True)
class Mean:
    """Every update counts the same: Δ_t = (1/M) Σ s(τ_i) delta_i, over M updates with multiplicity.

    McMahan et al., arXiv:1602.05629, with uniform weights; with `staleness` the discount of FedBuff,
    Nguyen et al., arXiv:2106.06639, Algorithm 1.
    Sign: deltas are displacements; the server adds Δ_t.
    Departures: none. The divisor is M and not Σ s(τ_i): a discounted update is a smaller step, as in FedBuff.
    """

    staleness: Weight | str | None = None  # s: age in server steps -> weight, or its name; None: 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "staleness", staleness_weight(self.staleness))

    def init(self, x: Vector, clients: int) -> Total:
        return Total()

    def add(self, update: Contribution, start: Vector, x: Vector, state: Total) -> Total:
        factor = update.count * discount(self.staleness, update.staleness)
        return state.plus(update.delta, factor, update.count)

    def result(self, state: Total) -> tuple[Vector, Total]:
        return state.mean(), Total()
