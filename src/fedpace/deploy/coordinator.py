"""The server's side of a deployment as a function: an input and its time lead to messages.

It alone calls the machine. Live and in a replay it is given the same inputs, and ends in the same bits.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

from fedpace.deploy import estimates, messages
from fedpace.deploy.dispatching import Dispatcher, Outgoing
from fedpace.deploy.expectations import Awaited, Expectation
from fedpace.deploy.inputs import Input, InputKind
from fedpace.deploy.measures import model_sha256, weighted
from fedpace.deploy.messages import Envelope, Message, MessageKind
from fedpace.deploy.remembering import remembers
from fedpace.deploy.terms import Terms
from fedpace.errors import RemoteError
from fedpace.link.codecs.dense import encode_dense
from fedpace.pace.protocol import Continuous, Interruptible
from fedpace.privacy import NoiseSource
from fedpace.server import Step, Update
from fedpace.server.admission import is_amount
from fedpace.server.messages import Steps
from fedpace.sim.observer import StepRecord
from fedpace.vector import Layout, Vector

MOST_METRICS, LONGEST_NAME = 64, 100  # of one client and model


class Coordinator(Dispatcher):
    """Drives one server. `steps_taken` has the newest steps and their models, for whoever reports them."""

    def __init__(
        self, terms: Terms, initial: Vector, layout: Layout, run: bytes, noise: NoiseSource | None = None
    ) -> None:
        self.envelope = Envelope(run, terms.plan.digest)
        super().__init__(terms, initial, layout, noise)
        self.initial, self.initial_sha256 = self.server.model, model_sha256(self.server.model)
        self.steps_taken: list[Step] = []
        self._handlers: dict[MessageKind, Callable[[int, Message], None]] = {
            MessageKind.HELLO: self._greeted,
            MessageKind.UPDATE: self._updated,
            MessageKind.WANT: self._wanted,
            MessageKind.PAUSE: self._paused,
            MessageKind.READY: self._ready,
            MessageKind.DROPPED: self._dropped,
            MessageKind.EVALUATED: self._evaluated_by_client,
            MessageKind.LEAVE: self._left,
            MessageKind.LACK: self._lacks,
            MessageKind.ESTIMATED: self._estimated,
        }

    # ------------------------------------------------------------ what a driver reads

    @property
    def finished(self) -> bool:
        return self.server.version >= self.terms.rounds or self.server.exhausted is not None

    @property
    def wake_at(self) -> float | None:
        """When to give it a WAKE, if nothing happens before."""
        if not self.state.started:
            return self.state.expected.next_s()
        times = (self.server.wake_at, self.state.expected.next_s())
        return min((time for time in times if time is not None), default=None)

    def counters(self) -> dict[str, int]:
        """Outcomes of updates and of deliveries."""
        discarded = {"discarded": self.server.unused}
        return {**asdict(self.server.counts), **discarded, **asdict(self.state.deliveries)}

    def history(self) -> list[StepRecord]:
        """One record per server step, with the metrics known by now."""
        return [replace(step, metrics=self.metrics_of(step.version)) for step in self.state.steps]

    def metrics_of(self, version: int) -> dict[str, float]:
        """The server's own; those measured by clients, weighted by samples, where it has none."""
        measured = self.state.client_metrics.get(version, {})
        return {**weighted(measured), **self.state.metrics.get(version, {})}

    # ------------------------------------------------------------ inputs

    def handle(self, what: Input) -> list[Outgoing]:
        """Let it happen; what to send, once the input is safe in the journal."""
        s = self.state
        s.position, s.now = s.position + 1, what.now
        self._out, self.steps_taken = [], []
        match what.kind:
            case InputKind.START:
                self._start(int.from_bytes(what.body, "little"))
            case InputKind.MESSAGE:
                message = what.read_message(self.envelope)
                self._handlers[message.kind](what.client, message)
            case InputKind.AWAY:
                self._away(what.client, gone=bool(what.body))
            case InputKind.WAKE:
                self._wake()
            case InputKind.DISPATCH:
                self._dispatch()
            case InputKind.EVALUATED:
                found = json.loads(bytes(what.body))
                s.metrics[found["version"]] = found["metrics"]
            case InputKind.POOLED:
                found = json.loads(bytes(what.body))
                estimates.pool(s, self.terms.normalisers, found["version"], found["clients"])
        return self._out

    def _start(self, incarnation: int) -> None:
        """A new process: nobody is connected to it yet, and everybody may come back with their work."""
        s = self.state
        s.incarnations.append((incarnation, s.position))
        for client in sorted(s.connected):
            self._away(client)

    def _wake(self) -> None:
        now, expected = self.state.now, self.state.expected
        if self.server.wake_at is not None and self.server.wake_at <= now:
            self._take_steps(self.server.woke(now))
        for client in expected.gone(now):
            self._leave(client)
        for client in expected.overdue(now, self.state.held_back):
            expected.missed(client)
            self.state.deliveries.overdue += 1
            self.state.overdue.add(client)
            self._leave(client)
            self._send(client, Message(MessageKind.RECALL))
        self._release_if_complete()

    def _dispatch(self) -> None:
        """Ask the machine what to send, until it has nothing to do at this instant."""
        if not self.state.started and self.server.present >= self.terms.wait_for:
            self._begin()
        while self.state.started and not self.finished:
            for order in self.server.dispatch(self.state.now):
                self._carry_out(order)
            if self.server.wake_at is None or self.server.wake_at > self.state.now:
                return
            self._take_steps(self.server.woke(self.state.now))

    def _begin(self) -> None:
        """So many clients are here that the first model can be sent."""
        self.state.started = True
        if self.terms.gathers:
            self.state.population = sorted(self.state.samples)
            self._settle()

    # ------------------------------------------------------------ messages of clients

    def _greeted(self, client: int, message: Message) -> None:
        """A client says what it holds and does; it is told what the server took, and what it lacks is repeated."""
        s, hello = self.state, message.header
        if not self.terms.believes(hello["samples"]):
            self._send(client, Message(MessageKind.BYE, {"reason": "samples must be a number within limits"}))
            return
        s.connected.add(client)
        s.expected.back(client, s.now, self.terms.patience.grace_s)
        s.wanting.pop(client, None)
        for gone in (s.overdue, s.paused):
            gone.discard(client)
        forget = not remembers(s, client, self.server.last_taken(client), hello)
        if forget:
            s.deliveries.resynchronised += 1
            s.forgotten_at[client] = s.position
            self.server.forget(client)
        newly = not self.server.is_present(client)
        if newly:
            self._join(client, float(hello["samples"]))
        self._send(client, self._welcome(client, hello["greeting"], forget))
        self._repeat(client, hello, forget, newly)
        self._release_if_complete()

    def _lacks(self, client: int, message: Message) -> None:
        """A client made another initial model than the server did: it gets this one."""
        self._send(client, Message(MessageKind.INITIAL, {}, {"initial": encode_dense(self.initial)}))

    def _join(self, client: int, samples: float) -> None:
        """What a client says first of its samples counts for the whole run."""
        pinned = self.state.samples.setdefault(client, samples)
        if self.terms.samples is not None:
            pinned = self.terms.samples[client]
        self.server.joined(client, samples=pinned)

    def _welcome(self, client: int, greeting: int, forget: bool) -> Message:
        terms = self.terms
        header = {
            "greeting": greeting,
            "client": client,
            "clients": terms.clients,
            "rounds": terms.rounds,
            "seed": terms.seed,
            "plan": terms.plan.text,
            "taken": self.server.last_taken(client),
            "forget": forget,
            "initial": self.initial_sha256,
            "stamp": list(self.stamp),
        }
        return Message(MessageKind.WELCOME, header)

    def _repeat(self, client: int, hello: Any, forget: bool, newly: bool) -> None:
        """What the server waits for and the client does not know of, or gave up."""
        expected, doing = self.state.expected.clients.get(client), None if forget else hello["doing"]
        if not forget and hello["upload"] > self.server.last_taken(client):
            return  # it sends that again
        idle = isinstance(self.terms.behaviour, Interruptible) and doing is None
        if idle and self.state.started and not newly:
            self._lose(client, None)
        elif expected is not None and not newly:
            self._repeat_order(client, expected, doing)

    def _repeat_order(self, client: int, expected: Expectation, doing: list[int] | None) -> None:
        trains = doing is not None and doing[-1] == expected.round
        if expected.what is Awaited.TRAINING and (trains or isinstance(self.terms.behaviour, Continuous)):
            return  # one that trains continuously asks for a model itself
        self.state.deliveries.resent += 1
        match expected.what:
            case Awaited.TRAINING:
                self._send_model(client, expected.version, expected.round)
            case Awaited.POLL:
                self._send(client, self._stamped(MessageKind.POLL))
            case Awaited.INTERRUPT:
                self._interrupt(client, expected.version, expected.round)

    def _updated(self, client: int, message: Message) -> None:
        self._hear(client)
        update = messages.to_update(client, message)
        self.state.tally.bytes_up += update.size_bytes
        self.state.origins[client] = message.header["origin"]
        if self.terms.in_order and "resync" not in update.frames:
            self.state.held_back[client] = update
            self._release_if_complete()
        else:
            self._receive(update)

    def _release_if_complete(self) -> None:
        """With `in_order`: once every client that is waited for has delivered, their updates, by client number."""
        s = self.state
        if s.held_back and set(s.expected.clients) <= set(s.held_back):
            updates, s.held_back = [s.held_back[client] for client in sorted(s.held_back)], {}
            for update in updates:
                self._receive(update)

    def _receive(self, update: Update) -> None:
        client, duplicates = update.client, self.server.counts.duplicates
        receipt, steps = self.server.receive(update, self.state.now)
        if "resync" in update.frames:
            self._send_again(client)
            return
        expected = self.state.expected.clients.get(client)
        repeated = self.server.counts.duplicates > duplicates
        if receipt.taken == update.session and not repeated:
            self.state.taken_from[client] = self.state.origins[client]
        if expected is not None and expected.is_met_by(update.round) and not repeated:
            self.state.expected.met(client, self.state.now)
        self._send(client, messages.of_receipt(update.session, receipt, self.stamp))
        self._take_steps(steps)

    def _send_again(self, client: int) -> None:
        """A client could not read its model: the same one, in full."""
        version, round = self.state.sent.get(client, (-1, -1))
        try:
            self._send_model(client, version, round)
        except RemoteError:  # no longer held: the client was overtaken, or made this up
            self._lose(client, None)

    def _wanted(self, client: int, message: Message) -> None:
        self._hear(client)
        s = self.state
        expected = s.expected.clients.get(client)
        if expected is not None and expected.what is Awaited.TRAINING:
            s.expected.met(client, s.now)
        newer_than = message.header["newer_than"]
        s.wanting[client] = newer_than
        if s.broadcast is not None and s.broadcast[0] > newer_than and not self.finished:
            self._try_offer(client)

    def _try_offer(self, client: int) -> None:
        try:
            self._offer(client)
            self.state.wanting.pop(client)
        except RemoteError:  # it reported from this one before: it waits for the next
            self.state.expected.void(client)

    def _paused(self, client: int, message: Message) -> None:
        self.state.paused.add(client)
        self._leave(client)

    def _ready(self, client: int, message: Message) -> None:
        self.state.paused.discard(client)
        self._come_back(client)

    def _dropped(self, client: int, message: Message) -> None:
        self.state.deliveries.dropped += 1
        self._lose(client, message.header["round"])

    def _left(self, client: int, message: Message) -> None:
        self.state.connected.discard(client)
        self._leave(client)

    def _evaluated_by_client(self, client: int, message: Message) -> None:
        said = message.header
        sound = 0 <= said["version"] <= self.server.version and len(said["metrics"]) <= MOST_METRICS
        sound = sound and all(len(name) <= LONGEST_NAME for name in said["metrics"])
        if sound and is_amount(said["samples"], self.server.algorithm.limits.samples):
            measured = self.state.client_metrics.setdefault(said["version"], {})
            measured[client] = (float(said["samples"]), dict(said["metrics"]))

    def _estimated(self, client: int, message: Message) -> None:
        said = message.header
        asked = 0 <= said["version"] <= self.server.version
        if asked and is_amount(said["samples"], self.server.algorithm.limits.samples):
            estimates.add(self.state, self.terms.normalisers, client, message)

    # ------------------------------------------------------------ who is there

    def _away(self, client: int, gone: bool = False) -> None:
        """Its connection ended: it may come back with its work, unless the transport knows better."""
        s = self.state
        if client in s.connected:
            s.connected.discard(client)
            s.wanting.pop(client, None)
            s.deliveries.disconnected += 1
            if gone:
                self._leave(client)
            elif self.server.is_present(client):
                s.expected.away_until_s[client] = s.now + self.terms.patience.grace_s

    def _hear(self, client: int) -> None:
        if client in self.state.overdue:
            self.state.overdue.discard(client)
            self._come_back(client)

    def _come_back(self, client: int) -> None:
        if not self.server.is_present(client) and client not in self.state.paused:
            self.server.joined(client)

    def _leave(self, client: int) -> None:
        s = self.state
        s.expected.void(client)
        s.expected.away_until_s.pop(client, None)
        s.wanting.pop(client, None)
        if self.server.is_present(client):
            self._take_steps(self.server.left(client))
        self._release_if_complete()

    def _lose(self, client: int, round: int | None) -> None:
        self.state.expected.void(client)
        self._take_steps(self.server.lost(client, round))
        self._release_if_complete()

    # ------------------------------------------------------------ small helpers

    def _take_steps(self, steps: Steps) -> None:
        s = self.state
        for step in steps:
            if isinstance(step, Step):
                up, down = s.tally.bytes_up - s.reported[0], s.tally.bytes_down - s.reported[1]
                s.reported = (s.tally.bytes_up, s.tally.bytes_down)
                known = (step.version, s.now, step.clients, step.staleness, up, down)
                s.steps.append(StepRecord(*known, clipped=step.clipped, epsilon=step.epsilon))
                self.steps_taken.append(step)
