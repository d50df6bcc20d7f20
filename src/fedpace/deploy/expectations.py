"""Whom the server waits for, and for how long: nobody is waited for for ever.

How long a client may take follows from its own history: `factor` times the longest of its recent sessions, at least
`least_s`; `first_s` before any is known. A client that is overdue counts as gone until it is heard of again, and may
take twice as long the next time. One whose connection broke is waited for `grace_s`: it may come back with its work.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field, replace
from enum import Enum

from fedpace.errors import require_number

FADING = 0.8  # of the longest session that is remembered, with every shorter one


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Seconds, but `factor`."""

    factor: float = 4.0
    least_s: float = 30.0
    first_s: float = 600.0
    grace_s: float = 30.0

    def __post_init__(self) -> None:
        require_number(self.factor, "Patience.factor", low=1, allowed=">= 1")
        for name in ("least_s", "first_s", "grace_s"):
            require_number(getattr(self, name), f"Patience.{name}", above=0, allowed="> 0 seconds")


class Awaited(Enum):
    TRAINING = "training"  # the update of a model that was sent
    POLL = "poll"
    INTERRUPT = "interrupt"


@dataclass(frozen=True, slots=True)
class Expectation:
    what: Awaited
    version: int
    round: int
    since_s: float
    until_s: float

    def is_met_by(self, round: int) -> bool:
        """Whether an update of this round is the one; of a poll or an interruption, any is."""
        return self.what is not Awaited.TRAINING or round >= self.round


@dataclass(slots=True)
class Expectations:
    """At most one of each client."""

    clients: dict[int, Expectation] = field(default_factory=dict)
    longest_s: dict[int, float] = field(default_factory=dict)  # of the recent sessions of each client
    away_until_s: dict[int, float] = field(default_factory=dict)

    def expect(
        self, client: int, what: Awaited, version: int, round: int, now: float, patience: Patience
    ) -> None:
        longest = self.longest_s.get(client)
        wait = patience.first_s if longest is None else max(patience.least_s, patience.factor * longest)
        self.clients[client] = Expectation(what, version, round, now, now + wait)

    def met(self, client: int, now: float) -> None:
        """The client delivered: that is how long it takes."""
        if (met := self.clients.pop(client, None)) is not None:
            took = now - met.since_s
            self.longest_s[client] = max(took, FADING * self.longest_s.get(client, 0.0))

    def void(self, client: int) -> Expectation | None:
        """Nothing is expected of this client any more."""
        return self.clients.pop(client, None)

    def overdue(self, now: float, delivered: Container[int] = ()) -> list[int]:
        """Clients that took too long; not those that are away, which have a deadline of their own."""
        late = [client for client, each in self.clients.items() if each.until_s <= now]
        return sorted(
            client for client in late if client not in self.away_until_s and client not in delivered
        )

    def missed(self, client: int) -> None:
        """The client was overdue: it may take twice as long the next time."""
        missed = self.clients.pop(client)
        waited = missed.until_s - missed.since_s
        self.longest_s[client] = max(waited / 2, 2 * self.longest_s.get(client, 0.0))

    def back(self, client: int, now: float, grace_s: float) -> None:
        """It is here again: while it was away it could neither be sent its work nor deliver it."""
        until, each = self.away_until_s.pop(client, None), self.clients.get(client)
        if until is not None and each is not None:
            away_s = now - (until - grace_s)
            self.clients[client] = replace(each, until_s=each.until_s + away_s)

    def gone(self, now: float) -> list[int]:
        """Clients that did not come back in time."""
        return sorted(client for client, until in self.away_until_s.items() if until <= now)

    def next_s(self) -> float | None:
        """When to look again."""
        deadlines = [each.until_s for client, each in self.clients.items() if client not in self.away_until_s]
        return min([*deadlines, *self.away_until_s.values()], default=None)
