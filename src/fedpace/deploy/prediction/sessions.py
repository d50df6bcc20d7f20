"""What a journal tells of every client's sessions: when a model left, when its update came, how much was sent.

The journal is run again through the coordinator, so that what the server sent is known as well as what came.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedpace.deploy import genesis
from fedpace.deploy.coordinator import Coordinator
from fedpace.deploy.genesis import Genesis
from fedpace.deploy.inputs import Input, InputKind
from fedpace.deploy.journal.disk_journal import inputs_from, read_segments, restore
from fedpace.deploy.journal.files import DiskFiles
from fedpace.deploy.messages import Message, MessageKind
from fedpace.errors import ConfigError, DivergedError
from fedpace.untrusted import as_number

LONGEST_S = 1e9  # of local training: more than that was not measured by a clock
_PRESENCE = (InputKind.START, InputKind.MESSAGE, InputKind.AWAY, InputKind.WAKE)


@dataclass(frozen=True, slots=True)
class ObservedSession:
    """From a model's sending to its update's arrival, at the server. `asked_s`: the last poll or interruption."""

    sent_s: float
    asked_s: float
    asked_bytes: int  # of that order, which may be the model
    arrived_s: float
    train_s: float | None  # as the client measured it; None: it did not say
    steps: int
    bytes_down: int
    bytes_up: int
    first: bool  # of its client in this run; an earlier one may never have been sent

    @property
    def round_trip_s(self) -> float:
        return self.arrived_s - self.sent_s


@dataclass(slots=True)
class ObservedClient:
    sessions: list[ObservedSession] = field(default_factory=list)
    unstarted: list[ObservedSession] = field(
        default_factory=list
    )  # interrupted before their first local step
    present: list[tuple[float, float | None]] = field(default_factory=list)  # from, to; None: until the end
    models: dict[int, tuple[float, int]] = field(default_factory=dict)  # position -> when sent, bytes
    asked_s: float = 0.0
    asked_bytes: int = 0


@dataclass(slots=True)
class Observed:
    """A journal, read. Seconds are those of the run's clock; `started_s`: when the first model was due."""

    begun: Genesis
    coordinator: Coordinator
    clients: dict[int, ObservedClient] = field(default_factory=dict)
    started_s: float | None = None

    def enter(self, what: Input) -> None:
        """Let an input happen, and note what follows from it."""
        state = self.coordinator.state
        if what.kind is InputKind.MESSAGE:
            self._arrived(what.client, what.read_message(self.coordinator.envelope), what.now)
        for client, message in self.coordinator.handle(what):
            self._sent(self._of(client), message, state.position, state.now)
        state = self.coordinator.state
        if self.started_s is None and state.started:
            self.started_s = state.now
        if what.kind in _PRESENCE:
            self._note_presence([what.client] if what.client >= 0 else list(self.clients), state.now)

    def _of(self, client: int) -> ObservedClient:
        return self.clients.setdefault(client, ObservedClient())

    def _sent(self, client: ObservedClient, message: Message, position: int, now: float) -> None:
        if message.kind in (MessageKind.MODEL, MessageKind.INTERRUPT):
            client.models[position] = (now, message.size_bytes)
        if message.kind in (MessageKind.INTERRUPT, MessageKind.POLL):
            client.asked_s, client.asked_bytes = now, message.size_bytes

    def _arrived(self, number: int, message: Message, now: float) -> None:
        header, client = message.header, self._of(number)
        if message.kind is not MessageKind.UPDATE or "resync" in message.frames:
            return
        sent = client.models.pop(header["origin"], None)  # None: repeated, or sent before the journal begins
        if sent is None:
            return
        train_s = as_number(header.get("train_s"))
        known = train_s if 0 <= train_s <= min(LONGEST_S, now - sent[0]) else None
        session = ObservedSession(
            sent_s=sent[0],
            asked_s=client.asked_s,
            asked_bytes=client.asked_bytes,
            arrived_s=now,
            train_s=known,
            steps=header["steps"],
            bytes_down=sent[1],
            bytes_up=message.size_bytes,
            first=header["session"] == 1,
        )
        (client.sessions if session.steps else client.unstarted).append(session)

    def _note_presence(self, numbers: list[int], now: float) -> None:
        for number in numbers:
            windows = self._of(number).present
            was, now_is = bool(windows) and windows[-1][1] is None, self.coordinator.server.is_present(number)
            if now_is and not was:
                windows.append((now, None))
            elif was and not now_is:
                windows[-1] = (windows[-1][0], now)


def observe(folder: str | Path, rules: Mapping[str, Callable[..., Any]] | None = None) -> Observed:
    """Run the journal in a server's folder again, and watch."""
    files = DiskFiles(Path(folder))
    begun = genesis.read(files, rules) if Path(folder).is_dir() else None
    if begun is None:
        raise ConfigError(f"RUN must be a deployed run with its journal; got {str(folder)!r}")
    coordinator, found = begun.coordinator(), read_segments(files, begun.run)
    since = 0 if not found or found[0][1].first == 0 else restore(files, coordinator)
    observed = Observed(begun, coordinator)
    if coordinator.state.started:
        observed.started_s = coordinator.state.now
    with contextlib.suppress(DivergedError):  # as the run itself ended
        for what in inputs_from(found, since):
            observed.enter(what)
    return observed
