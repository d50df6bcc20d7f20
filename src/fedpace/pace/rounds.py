"""Synchronous rounds: one pacing rule among seven."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from fedpace.errors import require_count, require_number
from fedpace.pace.crowd import Crowd, Draw
from fedpace.pace.protocol import Header, OnDemand, Order, Send, Verdict, WakeAt
from fedpace.pace.roll import Roll
from fedpace.pace.select import Selection, Uniform, require_enough


@dataclass(slots=True)
class RoundsState:
    roll: Roll = field(default_factory=Roll)
    asked: int = 0  # choices made so far
    deadline: float = math.inf  # when patience ends
    overdue: bool = False  # patience has ended and nobody had answered


@dataclass(frozen=True, slots=True)
class Rounds:
    """Choose clients, send them the newest model, wait for all of them, step (FedAvg).

    McMahan et al. 2017, Algorithm 1. A client drawn twice trains once and counts twice.
    `clients_per_round=None` is everybody. A lost client is waited for no longer; with `patience_s` the round
    closes after that many seconds with whoever has answered, or with the first answer if nobody had; later
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

    @property
    def per_step(self) -> int | None:
        return self.clients_per_round

    def init(self, clients: int) -> RoundsState:
        require_enough(self.select, self.clients_per_round, clients)
        return RoundsState()

    def awaited(self, state: RoundsState) -> int:
        return len(state.roll.draws)

    def arrived(self, header: Header, version: int, state: RoundsState) -> tuple[Verdict, RoundsState]:
        count = state.roll.answer(header.client) if header.round == version else 0
        step = count > 0 and (state.roll.close() if state.overdue else state.roll.close_if_complete())
        return Verdict(count, step, "" if count else f"late for round {header.round}"), state

    def lost(self, client: int, state: RoundsState) -> tuple[bool, RoundsState]:
        state.roll.strike(client)
        return state.roll.close_if_complete(), state

    def joined(self, client: int, state: RoundsState) -> RoundsState:
        return state

    def woke(self, now: float, state: RoundsState) -> tuple[bool, RoundsState]:
        if now < state.deadline:
            return False, state
        state.overdue = state.roll.open and not state.roll.heard
        return not state.overdue and state.roll.close(), state

    def dispatch(
        self, version: int, now: float, crowd: Crowd, state: RoundsState, draw: Draw
    ) -> tuple[tuple[Order, ...], RoundsState]:
        if state.roll.open or not len(crowd):
            return (), state
        chosen = choose(self.clients_per_round, self.select, state.asked, crowd, draw)
        state.asked += 1
        orders: list[Order] = [Send(client) for client in state.roll.call(chosen)]
        if self.patience_s is not None:
            state.overdue = False
            state.deadline = now + self.patience_s
            orders.append(WakeAt(state.deadline))
        return tuple(orders), state


def choose(k: int | None, select: Selection, asked: int, crowd: Crowd, draw: Draw) -> list[int]:
    """The selection rule's choice; `k=None` with a uniform choice is everybody present."""
    if k is None and select == Uniform():
        return crowd.members()
    return select.choose(len(crowd) if k is None else k, asked, crowd, frozenset(), draw)
