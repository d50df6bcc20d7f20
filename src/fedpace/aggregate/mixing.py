"""FedAsync: the server's model moves towards the local model that arrived."""

from __future__ import annotations

from dataclasses import dataclass

from fedpace.aggregate.protocol import Contribution
from fedpace.aggregate.staleness import Weight, discount, staleness_weight
from fedpace.aggregate.total import Total
from fedpace.errors import require_number
from fedpace.vector import Vector


@dataclass(frozen=True, slots=True)
class Mixing:
    """x <- (1 - a) x + a x_local with a = alpha s(tau).

    Xie, Koyejo & Gupta 2019 (FedAsync), Algorithm 1. In displacements x_local = start + delta, so the server
    adds a (start + delta - x): the update is measured against the model of now, unlike FedBuff's.
    Sign: a displacement, added.
    Departures: several updates in one step (the paper has one) add up, each mixed against the same x.
    """

    alpha: float = 0.6
    staleness: Weight | str | None = None

    def __post_init__(self) -> None:
        require_number(self.alpha, "alpha", above=0, high=1, allowed="in (0, 1]")
        object.__setattr__(self, "staleness", staleness_weight(self.staleness))

    def init(self, x: Vector, clients: int) -> Total:
        return Total()

    def add(self, update: Contribution, start: Vector, x: Vector, state: Total) -> Total:
        factor = update.count * self.alpha * discount(self.staleness, update.staleness)
        return state.plus(start + update.delta - x, factor, 0.0)

    def result(self, state: Total) -> tuple[Vector, Total]:
        return state.sum(), Total()
