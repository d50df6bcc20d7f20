"""A fleet's status, read off a server between two of its batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import takewhile

from fedpace.deploy.fleet.ledger import ClientAccount
from fedpace.deploy.serving import Serving
from fedpace.deploy.transport import Observable, Presence
from fedpace.pace.protocol import Continuous, Interruptible
from fedpace.record.fleet.status import MOST_REASONS, ClientStatus, FleetStatus
from fedpace.untrusted import visible

RATE_S = 60.0  # over which steps are counted
UPDATES_REFUSED = {  # counters of the server, and their names here
    "refused": "update: late, unexpected or too stale",
    "malformed": "update: malformed",
    "not_finite": "update: not finite",
    "duplicates": "update: repeated",
}
OTHER, LONGEST_REASON = "other", 200


class FleetObserver:
    """Reads one server while it runs."""

    def __init__(self, serving: Serving, run: str) -> None:
        self.serving, self.run, self._began_s = serving, run, serving.now

    def status(self, wall_s: float, *, over: bool = False) -> FleetStatus:
        """How the fleet is; without alarms. `over`: the server has ended, and nobody is connected any more."""
        coordinator = self.serving.coordinator
        clients = tuple(self._clients(wall_s, over))
        states = Counter(client.state for client in clients)
        return FleetStatus(
            time=wall_s,
            run=self.run,
            step=coordinator.server.version,
            steps=coordinator.terms.rounds,
            step_rate=self._step_rate(),
            online=states["training"] + states["idle"],
            active=states["training"],
            silent=states["silent"],
            bytes_up=coordinator.state.tally.bytes_up,
            bytes_down=coordinator.state.tally.bytes_down,
            refused=self._refused(),
            clients=clients,
            alarms=(),
        )

    def _step_rate(self) -> float:
        """Over the last minute, or since the process began if that is less."""
        now = self.serving.now
        since = max(now - RATE_S, self._began_s)
        steps = self.serving.coordinator.state.steps
        recent = sum(1 for _ in takewhile(lambda step: step.virtual_seconds > since, reversed(steps)))
        return recent / (now - since) if now > since else 0.0

    def _refused(self) -> dict[str, int]:
        """Connections and messages by their reasons, updates by their outcomes; rare reasons are added up."""
        counters = self.serving.coordinator.counters()
        found = Counter({name: counters[key] for key, name in UPDATES_REFUSED.items()})
        for reason, count in self.serving.refused.items():
            found[visible(reason)[:LONGEST_REASON]] += count
        kept = dict((+found).most_common(MOST_REASONS - 1))
        others = found.total() - sum(kept.values())
        return {**kept, OTHER: others} if others else kept

    def _clients(self, wall_s: float, over: bool) -> Iterator[ClientStatus]:
        """Every client that was ever heard of, by number."""
        state = self.serving.coordinator.state
        presences = self._presences()
        for client in sorted({*state.samples, *state.connected, *presences}):
            presence = presences.get(client, Presence())
            account = self.serving.ledger.of(client)
            yield ClientStatus(
                client=client,
                state="offline" if over else self._state(client, presence),
                version=state.sent.get(client, (None,))[0],
                round_trip=account.round_trip,
                bytes_up=account.bytes_up,
                bytes_down=account.bytes_down,
                updates=account.updates,
                refused=account.refused,
                last_seen=self._last_seen(account, presence, wall_s),
            )

    def _presences(self) -> Mapping[int, Presence]:
        transport = self.serving.transport
        return transport.presences() if isinstance(transport, Observable) else {}

    def _state(self, client: int, presence: Presence) -> str:
        state = self.serving.coordinator.state
        if presence.is_suspended:
            return "suspended"
        if client in state.overdue or client in state.expected.away_until_s:
            return "silent"
        if client not in state.connected:
            return "offline"
        if presence.is_silent:
            return "silent"
        return "training" if self._is_training(client) else "idle"

    def _is_training(self, client: int) -> bool:
        """As far as the server knows: it was sent a model, or trains all the time by its rule."""
        coordinator = self.serving.coordinator
        state = coordinator.state
        if coordinator.finished or client in state.paused:
            return False
        always = isinstance(coordinator.terms.behaviour, Continuous | Interruptible)
        return client in state.expected.clients or (
            always and client in state.sent and client not in state.wanting
        )

    def _last_seen(self, account: ClientAccount, presence: Presence, wall_s: float) -> float | None:
        """The last byte, where the transport knows it; else the last message."""
        heard = None if account.heard_s is None else self.serving.now - account.heard_s
        ago = [each for each in (heard, presence.heard_s_ago) if each is not None]
        return wall_s - max(0.0, min(ago)) if ago else None
