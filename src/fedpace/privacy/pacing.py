"""Rounds of a private run: whatever becomes of a cohort, its step is taken."""

from __future__ import annotations

from fedpace.pace import Pace, Registered, Rounds, Uniform
from fedpace.pace.available import Available, Draw
from fedpace.pace.protocol import Order, WakeAt
from fedpace.pace.rounds import RoundsState


class PrivateRounds(Rounds):
    """A cohort that is empty, or of which nobody answered, is a step of noise.

    To draw again instead would tell that somebody was drawn, and sampling could no longer hide who.
    """

    __slots__ = ()

    def lost(self, client: int, state: RoundsState) -> bool:
        was_open = state.cohort.open
        super().lost(client, state)
        return was_open and not state.cohort.open

    def woke(self, now: float, state: RoundsState) -> bool:
        if not state.cohort.open or (state.cohort.waiting and now < state.deadline):
            return False
        state.cohort.close()
        return True

    def dispatch(
        self, version: int, now: float, available: Available, state: RoundsState, draw: Draw
    ) -> tuple[Order, ...]:
        asked = state.asked
        orders = super().dispatch(version, now, available, state, draw)
        if state.asked == asked or state.cohort.open:
            return orders
        state.cohort.open = True  # empty: its step is taken at once
        return (WakeAt(now),)


def private_pace(pace: Pace, *, amplified: bool) -> Pace:
    """The pacing rule as a private run follows it; `amplified`: accounting counts on its draws."""
    if not isinstance(pace, Rounds):
        return pace
    fixed = amplified and pace.clients_per_round is not None and isinstance(pace.select, Uniform)
    select = Registered() if fixed else pace.select
    return PrivateRounds(pace.clients_per_round, select, pace.patience_s)
