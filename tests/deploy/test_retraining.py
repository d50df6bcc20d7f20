"""Messages that come late, connections that break, clients that restart: every update can be computed again.

Server and clients as functions, without a loop and without a clock; a seed decides what happens when.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest
from tests.deploy.deployed import CLIENTS, SAMPLES, TASK, VARIANTS

from fedpace.compute.protocol import Request
from fedpace.deploy import Owner, Patience, genesis, inputs
from fedpace.deploy.inputs import Input, InputKind
from fedpace.deploy.messages import Message, MessageKind, welcomed
from fedpace.deploy.participant import Participant
from fedpace.deploy.plan import RunPlan
from fedpace.deploy.reaction import Reaction, Remembered
from fedpace.deploy.replay import Retraining, _repeat
from fedpace.deploy.terms import Terms

ROUNDS, EVENTS = 12, 2000
PATIENCE = Patience(factor=2.0, least_s=2.0, first_s=10.0, grace_s=5.0)

TELLING = {
    ("fedbaca", 35),  # red if updates are sent before the welcome
    ("scaffold", 48),  # if the number of an upload is taken for the upload
    ("fedbaca", 28),  # if a disk from before a resynchronisation is believed
    ("fedbaca", 32),  # if a retraining takes every refusal for heard
}


@dataclass
class End:
    """A client's machine: what is on its way to and from it, what it trains, what its disk holds."""

    participant: Participant
    down: deque[Message] = field(default_factory=deque)
    up: deque[Message] = field(default_factory=deque)
    training: Request | None = None
    stopping: bool = False
    connected: bool = False
    disks: list[Remembered] = field(default_factory=lambda: [Remembered()])  # as it was at every time


class Disorder:
    """A run in which anything that can happen next may."""

    def __init__(self, name: str, seed: int) -> None:
        plan = RunPlan.of(VARIANTS[name])
        terms = Terms(
            plan=plan,
            clients=CLIENTS,
            rounds=ROUNDS,
            seed=seed,
            samples=tuple(SAMPLES),
            wait_for=CLIENTS,
            patience=PATIENCE,
        )
        self.begun = genesis.new_run("quadratics", terms, TASK.initial(seed), TASK.layout)
        self.server, self.random, self.now = self.begun.coordinator(), Random(f"{name} {seed}"), 0.0
        self.ends = [End(Participant(TASK, number, Owner())) for number in range(CLIENTS)]
        self.journal: list[Input] = []
        self._happens(inputs.started(0.0, 1))

    def run(self) -> None:
        for _ in range(EVENTS):
            if self.server.finished:
                return
            self.now += self.random.expovariate(4.0)
            self._anything()
            self._happens(Input(InputKind.DISPATCH, self.now))

    def _anything(self) -> None:
        number = self.random.randrange(CLIENTS)
        end, chance = self.ends[number], self.random.random()
        if self.server.wake_at is not None and self.server.wake_at <= self.now:
            self._happens(Input(InputKind.WAKE, self.now))
        if not end.connected:
            end.connected = True
            self._react(number, end.participant.connected())
        elif chance < 0.02:
            self._cut(number)
        elif chance < 0.03:
            self._restart(number, self.random.choice(end.disks))
        elif chance < 0.035:
            self._restart_server()
        elif chance < 0.35 and end.training is not None:
            self._train(number)
        elif chance < 0.7 and end.up:
            body = b"".join(self.server.envelope.pack(end.up.popleft()))
            self._happens(Input(InputKind.MESSAGE, self.now, number, body))
        elif end.down:
            self._deliver(number, end.down.popleft())

    def _happens(self, what: Input) -> None:
        self.journal.append(what)
        for number, message in self.server.handle(what):
            if self.ends[number].connected:
                self.ends[number].down.append(message)

    def _deliver(self, number: int, message: Message) -> None:
        end = self.ends[number].participant
        if message.kind is MessageKind.WELCOME:
            data = b"".join(self.server.envelope.pack(message))
            self._react(number, end.welcome(*welcomed(data)))
        else:
            self._react(number, end.receive(message))

    def _react(self, number: int, reaction: Reaction) -> None:
        end = self.ends[number]
        if reaction.save:
            end.disks.append(deepcopy(end.participant.memory))
        end.up.extend(reaction.send)
        end.stopping = end.stopping or reaction.stop
        if reaction.train is not None:
            end.training, end.stopping = reaction.train, False

    def _train(self, number: int) -> None:
        end = self.ends[number]
        request, end.training = end.training, None
        assert request is not None
        steps = self.random.randint(0, request.steps) if end.stopping else request.steps
        delta = end.participant.task.solve(replace(request, steps=steps))
        self._react(number, end.participant.trained(request.session, delta, steps))

    def _cut(self, number: int) -> None:
        """Of what a client sent, some came before."""
        end = self.ends[number]
        for message in list(end.up)[: self.random.randint(0, len(end.up))]:
            body = b"".join(self.server.envelope.pack(message))
            self._happens(Input(InputKind.MESSAGE, self.now, number, body))
        end.connected = False
        end.up.clear()
        end.down.clear()
        self._happens(inputs.away(self.now, number, gone=False))
        self._react(number, end.participant.disconnected())

    def _restart(self, number: int, disk: Remembered) -> None:
        """With the disk as it was, which may be long ago."""
        self._cut(number)
        fresh, old = Participant(TASK, number, Owner()), self.ends[number]
        fresh.memory = deepcopy(disk)
        fresh.memory.client = replace(fresh.memory.client, running=None, outbox=None, inbox=None, own=None)
        fresh.envelope = old.participant.envelope
        self.ends[number] = End(fresh, disks=old.disks)

    def _restart_server(self) -> None:
        for number, end in enumerate(self.ends):
            if end.connected:
                self._cut(number)
        self._happens(inputs.started(self.now, self.random.getrandbits(32)))


def cases() -> Iterator[Any]:
    for name in VARIANTS:
        for seed in range(60):
            quick = seed < 3 or (name, seed) in TELLING
            yield pytest.param(name, seed, marks=() if quick else pytest.mark.long)


@pytest.mark.parametrize(("name", "seed"), list(cases()))
def test_whatever_the_order_every_update_can_be_computed_again(name: str, seed: int) -> None:
    disorder = Disorder(name, seed)
    disorder.run()
    assert disorder.server.finished
    coordinator, again = disorder.begun.coordinator(), Retraining(disorder.begun, TASK)
    for what in disorder.journal:
        _repeat(what, coordinator, again)
    assert coordinator.server.model.tobytes() == disorder.server.server.model.tobytes()
    assert again.compared >= ROUNDS and again.different == []
