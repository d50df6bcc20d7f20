"""Everybody trains all the time; the server draws whose stored update to use (DeFedAvg-nIID)."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedpace.errors import require_count, require_flag
from fedpace.pace.crowd import Crowd, Draw
from fedpace.pace.protocol import Broadcast, Continuous, Header, Order, Poll, Verdict
from fedpace.pace.roll import Roll
from fedpace.pace.select import Selection, WithReplacement


@dataclass(slots=True)
class PolledState:
    roll: Roll = field(default_factory=Roll)
    asked: int = 0  # choices made so far
    published: int = -1  # newest version that was broadcast


@dataclass(frozen=True, slots=True)
class Polled:
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
        return PolledState()

    def awaited(self, state: PolledState) -> int:
        return len(state.roll.draws)

    def arrived(self, header: Header, version: int, state: PolledState) -> tuple[Verdict, PolledState]:
        count = state.roll.answer(header.client)
        step = count > 0 and state.roll.close_if_complete()
        return Verdict(count, step, "" if count else "not asked for"), state

    def lost(self, client: int, state: PolledState) -> tuple[bool, PolledState]:
        state.roll.strike(client)
        return state.roll.close_if_complete(), state

    def joined(self, client: int, state: PolledState) -> PolledState:
        return state

    def woke(self, now: float, state: PolledState) -> tuple[bool, PolledState]:
        return False, state

    def dispatch(
        self, version: int, now: float, crowd: Crowd, state: PolledState, draw: Draw
    ) -> tuple[tuple[Order, ...], PolledState]:
        orders: list[Order] = []
        if state.published < version:
            state.published = version
            orders.append(Broadcast())
        if not state.roll.open and len(crowd):
            chosen = self.select.choose(self.draws, state.asked, crowd, frozenset(), draw)
            state.asked += 1
            orders += [Poll(client) for client in state.roll.call(chosen)]
        return tuple(orders), state
