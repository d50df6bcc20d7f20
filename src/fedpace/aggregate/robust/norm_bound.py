"""The mean of updates that are not longer than a limit."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedpace.aggregate.protocol import Contribution
from fedpace.aggregate.staleness import Weight, discount, staleness_weight
from fedpace.aggregate.total import Total
from fedpace.errors import require_number
from fedpace.vector import Vector, shortened


@dataclass(frozen=True, slots=True)
class NormBound:
    """Δ_t = (1/M) Σ s(τ_i) delta_i min(1, limit / ||delta_i||): longer updates are scaled down to `limit`.

    Sun et al. 2019, arXiv:1911.07963, section 3. No breakdown point above 0: it bounds how far one client moves
    the model in a step, not where to.
    Sign: deltas are displacements; the server adds Δ_t.
    Departures: none; `Algorithm(clip=)` does the same before any rule of aggregation.
    """

    limit: float
    staleness: Weight | str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "staleness", staleness_weight(self.staleness))
        require_number(self.limit, "NormBound.limit", above=0, below=math.inf, allowed="> 0")

    def init(self, x: Vector, clients: int) -> Total:
        return Total()

    def longest(self, state: Total) -> float:
        return self.limit

    def add(self, update: Contribution, start: Vector, x: Vector, state: Total) -> Total:
        factor = update.count * discount(self.staleness, update.staleness)
        return state.plus(shortened(update.delta, self.limit), factor, update.count)

    def result(self, state: Total) -> tuple[Vector, Total]:
        return state.mean(), Total()
