"""The mean of updates by sample counts."""

from __future__ import annotations

from dataclasses import dataclass

from fedpace.aggregate.mean import StalenessWeight
from fedpace.aggregate.protocol import Contribution
from fedpace.aggregate.total import Total
from fedpace.vector import Vector


@dataclass(frozen=True, slots=True)
class Weighted:
    """Updates count by their samples: Δ_t = Σ n_i s(τ_i) delta_i / Σ n_i, over those that arrived.

    McMahan et al., arXiv:1602.05629, Algorithm 1; scheme B of Wang et al., arXiv:2007.07481, App. G: a ratio
    estimator. Drawing clients by sample share *and* weighing them by it would count the share twice.
    Sign: deltas are displacements; the server adds Δ_t.
    Departures: an optional discount by age, as in `Mean`.
    """

    staleness: StalenessWeight | None = None

    def init(self, x: Vector, clients: int) -> Total:
        return Total()

    def add(self, update: Contribution, start: Vector, x: Vector, state: Total) -> Total:
        weight = update.count * update.samples
        discount = 1.0 if self.staleness is None else self.staleness(update.staleness)
        return state.plus(update.delta, weight * discount, weight)

    def result(self, state: Total) -> tuple[Vector, Total]:
        return state.mean(), Total()
