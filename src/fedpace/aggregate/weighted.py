"""The mean of updates by sample counts."""

from __future__ import annotations

from dataclasses import dataclass

from fedpace.aggregate.protocol import Contribution
from fedpace.aggregate.staleness import Weight, discount, staleness_weight
from fedpace.aggregate.total import Total
from fedpace.vector import Vector


@dataclass(frozen=True, slots=True)
class Weighted:
    """Updates count by their samples: Δ_t = Σ n_i s(τ_i) delta_i / Σ n_i, over the updates of the step.

    McMahan et al., arXiv:1602.05629, Algorithm 1; scheme B of Wang et al., arXiv:2007.07481, App. G: a ratio
    estimator. Drawing clients by sample share *and* weighing them by it would count the share twice.
    Sign: deltas are displacements; the server adds Δ_t.
    Departures: an optional discount by age, as in `Mean`.
    """

    staleness: Weight | str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "staleness", staleness_weight(self.staleness))

    def init(self, x: Vector, clients: int) -> Total:
        return Total()

    def add(self, update: Contribution, start: Vector, x: Vector, state: Total) -> Total:
        weight = update.count * update.samples
        return state.plus(update.delta, weight * discount(self.staleness, update.staleness), weight)

    def result(self, state: Total) -> tuple[Vector, Total]:
        return state.mean(), Total()
