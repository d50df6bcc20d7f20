"""Synchronous rounds: one pacing rule among seven."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from fedpace.errors import require_count, require_number
from fedpace.pace.available import Available, Draw
from fedpace.pace.cohort import Cohort, WaitsForCohort
from fedpace.pace.protocol import Decision, OnDemand, Order, Send, UpdateHeader, WakeAt
from fedpace.pace.select import Poisson, Selection, Uniform, require_enough


@dataclass(slots=True)
class RoundsState:
    cohort: Cohort = field(default_factory=Cohort)
    asked: int = 0  # choices made so far
    deadline: float = math.inf  # when patience ends
    overdue: bool = False  # patience has ended before the first answer


class DrawnRounds(WaitsForCohort[RoundsState]):
    """What rounds share whose clients are drawn at their beginning."""

    __slots__ = ()
    clients_per_round: int | None
    select: Selection

    @property
    def per_step(self) -> int | None:
        return self.clients_per_round

    def init(self, clients: int) -> RoundsState:
        require_enough(self.select, self.clients_per_round, clients)
        return RoundsState()

    def dispatch(
        self, version: int, now: float, available: Available, state: RoundsState, draw: Draw
    ) -> tuple[Order, ...]:
        if state.cohort.open or not len(available):
            return ()
        chosen = choose(self.clients_per_round, self.select, state.asked, available, draw)
        state.asked += 1
        return self.orders(chosen, version, now, state, draw)

    def orders(
        self, chosen: Sequence[int], version: int, now: float, state: RoundsState, draw: Draw
    ) -> tuple[Order, ...]:
        """Open the round with the clients drawn."""
        raise NotImplementedError

    def expects(self, update: UpdateHeader, version: int, state: RoundsState) -> str:
        waited_for = update.round == version and state.cohort.waits_for(update.client)
        return "" if waited_for else f"late for round {update.round}"


@dataclass(frozen=True, slots=True)
class Rounds(DrawnRounds):
    """Choose clients, send them the newest model, wait for all of them, step (FedAvg).

    McMahan et al. 2017, Algorithm 1. A client drawn twice trains once and counts twice.
    `clients_per_round=None`: full participation. A lost client is waited for no longer; with `patience_s` the round
    closes after that many seconds with the clients that have answered, or with the first answer if none had; later
    answers are refused.
    """

    clients_per_round: int | None = None
    select: Selection = Uniform()
    patience_s: float | None = None

    client = OnDemand()
    keeps = 1

    def __post_init__(self) -> None:
        if self.clients_per_round is not None:
            require_count(self.clients_per_round, "clients_per_round")
        if self.patience_s is not None:
            require_number(self.patience_s, "patience_s", above=0, allowed="> 0 seconds")

    def arrived(self, update: UpdateHeader, version: int, state: RoundsState) -> Decision:
        count = state.cohort.answer(update.client)
        return Decision(count, state.cohort.close() if state.overdue else state.cohort.close_if_complete())

    def woke(self, now: float, state: RoundsState) -> bool:
        if now < state.deadline:
            return False
        state.overdue = state.cohort.open and not state.cohort.heard
        return not state.overdue and state.cohort.close()

    def orders(
        self, chosen: Sequence[int], version: int, now: float, state: RoundsState, draw: Draw
    ) -> tuple[Order, ...]:
        orders: list[Order] = [Send(client) for client in state.cohort.call(chosen)]
        if self.patience_s is not None:
            state.overdue = False
            state.deadline = now + self.patience_s
            orders.append(WakeAt(state.deadline))
        if not chosen and isinstance(self.select, Poisson):
            return (WakeAt(now),)  # to draw again
        return tuple(orders)


def choose(k: int | None, select: Selection, asked: int, available: Available, draw: Draw) -> list[int]:
    """The selection rule's choice; `k=None` with a uniform or a Poisson choice is all available clients."""
    if k is None and select in (Uniform(), Poisson()):
        return available.members()
    return select.choose(len(available) if k is None else k, asked, available, frozenset(), draw)
