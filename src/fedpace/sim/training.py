"""Local training as promises: computed when their bytes are needed, and never if they are not."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from fedpace.client import Client, Session
from fedpace.compute.protocol import Engine, Request
from fedpace.local import at_step
from fedpace.server import Update
from fedpace.sim.hostile import Attackers
from fedpace.sim.observer import Tally
from fedpace.vector import Vector


class TrainingPromises:
    """Between sessions and the engine that computes them.

    What is sure to be sent is announced, so that an engine may run ahead. `eager` computes every session when
    it starts, also those whose result is never used: the proof that laziness changes nothing.
    """

    def __init__(self, engine: Engine, eager: bool, attackers: Attackers | None = None) -> None:
        self.engine, self.eager, self.attackers = engine, eager, attackers
        self._made: dict[tuple[int, int], Vector] = {}

    @property
    def can_wait(self) -> bool:
        """Whether a session may be trained later than it is sent: nobody looks at the others' updates."""
        return not self.eager and self.attackers is None

    def promise(self, client: Client, session: Session, tally: Tally, sure: bool) -> None:
        """A session has started, or continues after a checkpoint."""
        if self.eager:
            tally.solved += 1
            self._made[client.number, session.number] = self.engine.result(request(client, session))
        elif sure:
            self.announce(client, session)

    def announce(self, client: Client, session: Session) -> None:
        """A running session will be sent when it is done."""
        self.engine.announce(request(client, session), client.state.times.ends_s)

    def announce_stored(self, clients: Iterable[Client]) -> None:
        """These clients are about to be polled: an engine may train their stored sessions in parallel."""
        for client in clients:
            if client.state.outbox is not None and client.state.upload is None:
                self.announce(client, client.state.outbox)

    def result(self, client: Client, session: Session, tally: Tally) -> Vector:
        """delta, now, and what its client keeps."""
        made = self._made.pop((client.number, session.number), None)
        if made is not None:
            return made
        tally.solved += 1
        return self.engine.result(request(client, session))

    def encoded(self, client: Client, session: Session, tally: Tally) -> tuple[Vector, Update]:
        """delta, now, and its frames: honest, or what a hostile client makes of it."""
        trained, size = self.result(client, session, tally), session.start.size
        if self.attackers is None:
            return trained[:size], client.encode(trained)
        asked = request(client, session)
        delta = self.attackers.sent(trained[:size], asked, self.engine)
        sent = delta if trained.size == size else np.concatenate([delta, trained[size:]])
        update = client.state.upload = self.attackers.claimed(client.encode(sent), asked)
        return delta, update

    def forget(self, client: Client, session: int) -> None:
        """The result is not needed after all."""
        key = client.number, session
        if self.eager:
            self._made.pop(key, None)
        self.engine.forget(key)


def request(client: Client, session: Session) -> Request:
    """All that decides the outcome of a session."""
    return Request(
        client=client.number,
        data=client.number,
        session=session.number,
        start=session.start,
        version=session.version,
        local=at_step(client.config.algorithm.local, session.round),
        steps=session.steps,
        seed=client.config.seed,
        correction=session.correction,
        memory=session.memory,
        beside=session.beside,
    )
