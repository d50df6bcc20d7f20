"""All clients train continuously; the server samples clients and uses their stored updates (DeFedAvg-nIID)."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedpace.errors import require_count, require_flag
from fedpace.pace.available import Available, Draw
from fedpace.pace.bounds import require_attainable
from fedpace.pace.cohort import Cohort, WaitsForCohort
from fedpace.pace.protocol import Broadcast, Continuous, Order, Poll, UpdateHeader
from fedpace.pace.select import Selection, WithReplacement


@dataclass(slots=True)
class PolledState:
    cohort: Cohort = field(default_factory=Cohort)
    asked: int = 0  # choices made so far
    published: int = -1  # newest version that was broadcast


@dataclass(frozen=True, slots=True)
class Polled(WaitsForCohort[PolledState]):
    """Draw `draws` clients with replacement, wait for the stored update of each, step, broadcast.

    DeFedAvg-nIID, Algorithm 1. A drawn client with nothing to send finishes what it is doing: it is neither
    interrupted nor replaced. Drawn twice it uploads once and counts twice; the divisor is the number of draws.
    A client that leaves while it is waited for takes its draws with it.
    """

    draws: int = 10
    select: Selection = WithReplacement()
    reuse_model: bool = False
    energy_saving: bool = False

    keeps = 1

    def __post_init__(self) -> None:
        require_count(self.draws, "draws")
        require_flag(self.reuse_model, "reuse_model")
        require_flag(self.energy_saving, "energy_saving")

    @property
    def client(self) -> Continuous:
        return Continuous(polled=True, reuse_model=self.reuse_model, energy_saving=self.energy_saving)

    @property
    def per_step(self) -> int | None:
        return self.draws

    def init(self, clients: int) -> PolledState:
        require_attainable(self.draws, "draws", clients)
        return PolledState()

    def expects(self, update: UpdateHeader, version: int, state: PolledState) -> str:
        return "" if state.cohort.waits_for(update.client) else "not asked for"

    def dispatch(
        self, version: int, now: float, available: Available, state: PolledState, draw: Draw
    ) -> tuple[Order, ...]:
        orders: list[Order] = []
        if state.published < version:
            state.published = version
            orders.append(Broadcast())
        if not state.cohort.open and len(available):
            chosen = self.select.choose(self.draws, state.asked, available, frozenset(), draw)
            state.asked += 1
            orders += [Poll(client) for client in state.cohort.call(chosen)]
        return tuple(orders)
