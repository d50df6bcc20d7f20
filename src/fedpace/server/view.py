"""What a driver may read of a server."""

from __future__ import annotations

from collections.abc import Set

from fedpace.algorithm import Algorithm
from fedpace.privacy import Privacy
from fedpace.server.private import PrivateRun
from fedpace.server.state import Counts, ServerState
from fedpace.vector import Vector


class ServerView:
    """A server's state, read."""

    clients: int
    state: ServerState
    algorithm: Algorithm
    _private: PrivateRun | None

    @property
    def version(self) -> int:
        """Server steps taken."""
        return self.state.version

    @property
    def model(self) -> Vector:
        return self.state.x

    @property
    def wake_at(self) -> float | None:
        """When to call `woke`, if at all."""
        return self.state.wake_at

    @property
    def counts(self) -> Counts:
        """Counters of received updates, by outcome."""
        return self.state.counts

    @property
    def optimizer_counts(self) -> dict[str, int]:
        """Counters of the server optimizer, where it has any."""
        count = getattr(self.algorithm.server_opt, "counts", None)
        return {} if count is None else dict(count(self.state.opt))

    @property
    def unused(self) -> int:
        """Updates taken that are in no step yet."""
        m = self.state.members
        return len(set(zip(m.clients, m.sessions, strict=True))) + len(self.state.kept)

    @property
    def present(self) -> int:
        """How many clients are available."""
        return self.clients - len(self.state.absent)

    @property
    def unavailable(self) -> Set[int]:
        """Clients that are not chosen: absent ones, and those that have contributed as often as they may."""
        absent = self.state.absent
        return absent if self._private is None else absent | self._private.excluded(self.state.settled)

    @property
    def privacy(self) -> Privacy | None:
        """What was spent until now, in a private run."""
        return None if self._private is None else self._private.spent(self.state.settled)

    @property
    def exhausted(self) -> str | None:
        """Why a private run may take no further step; None: it may."""
        return None if self._private is None else self._private.exhausted(self.state.settled)

    def is_present(self, client: int) -> bool:
        return client not in self.state.absent

    def last_taken(self, client: int) -> int:
        """The last session of this client that was taken: what it is told when it connects again."""
        return self.state.heard.get(client, 0)
