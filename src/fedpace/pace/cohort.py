"""The cohort: the clients a step waits for, with multiplicity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from fedpace.pace.protocol import Decision, UpdateHeader


@dataclass(slots=True)
class Cohort:
    """Opened with the clients drawn; complete when every one of them answered or was lost."""

    open: bool = False
    draws: dict[int, int] = field(default_factory=dict)  # client -> how often it was drawn
    waiting: set[int] = field(default_factory=set)  # not yet heard
    heard: int = 0  # answers so far

    def call(self, clients: Iterable[int]) -> list[int]:
        """Open with these draws; the distinct clients in order."""
        self.draws = dict(Counter(clients))
        self.waiting = set(self.draws)
        self.heard, self.open = 0, bool(self.draws)
        return sorted(self.draws)

    def waits_for(self, client: int) -> bool:
        return self.open and client in self.waiting

    def answer(self, client: int) -> int:
        """How often this answer counts; 0 if it is not waited for."""
        if not self.waits_for(client):
            return 0
        self.waiting.remove(client)
        self.heard += 1
        return self.draws[client]

    def strike(self, client: int) -> None:
        """Wait for this client no longer."""
        self.waiting.discard(client)

    def close_if_complete(self) -> bool:
        """Close once no client is waited for; True if any answered, so that there is something to step with."""
        if not self.open or self.waiting:
            return False
        self.open = False
        return self.heard > 0

    def close(self) -> bool:
        """Close at once; True if any client answered."""
        was_open, self.open = self.open, False
        self.waiting = set()
        return was_open and self.heard > 0


class HasCohort(Protocol):
    """The state of a rule that waits for a cohort."""

    cohort: Cohort


S = TypeVar("S", bound=HasCohort)


class WaitsForCohort(Generic[S]):
    """What the rules share whose step waits for the very clients it drew.

    A step when each of them has answered or was lost; no timer, and newcomers wait to be drawn.
    """

    __slots__ = ()

    def awaited(self, state: S) -> int:
        return len(state.cohort.draws)

    def arrived(self, update: UpdateHeader, version: int, state: S) -> Decision:
        count = state.cohort.answer(update.client)
        return Decision(count, state.cohort.close_if_complete())

    def lost(self, client: int, state: S) -> bool:
        state.cohort.strike(client)
        return state.cohort.close_if_complete()

    def joined(self, client: int, state: S) -> None:
        pass

    def woke(self, now: float, state: S) -> bool:
        return False
