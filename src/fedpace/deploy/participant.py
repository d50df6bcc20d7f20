"""The client's side of a deployment as a function: a message, or finished local training, leads to a reaction.

It drives the client's machine and computes nothing. A reaction says what to do, in this order: save the state, send
messages, stop the training under way, begin another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fedpace.algorithm import Algorithm
from fedpace.client import Client, ClientConfig, Session
from fedpace.compute.personal import personal_task
from fedpace.deploy import messages
from fedpace.deploy.local_task import ModelAndSamples
from fedpace.deploy.measures import model_sha256
from fedpace.deploy.messages import Envelope, Message, MessageKind, SentModel
from fedpace.deploy.owner import Owner
from fedpace.deploy.plan import RunPlan, digest
from fedpace.deploy.reaction import Reaction, Remembered
from fedpace.errors import ConfigError, RemoteError, require
from fedpace.link import Dense
from fedpace.pace.protocol import Continuous, Interruptible
from fedpace.server import Parcel, Update
from fedpace.sim.training import request
from fedpace.vector import Vector, freeze

NO_RUN = bytes(16)
REUSE_ANY = -1  # any broadcast is wanted, also one that was trained on before


class Participant:
    """One client of a run; `number` and rules are known once the server has welcomed it."""

    def __init__(self, task: ModelAndSamples, data: int, owner: Owner) -> None:
        self._whole = self.task = task  # `task`: as the run's algorithm trains it
        self.samples, self.data, self.owner = task.samples(data), data, owner
        self.envelope = Envelope(NO_RUN, NO_RUN)
        self.memory, self.plan_text, self.seed, self.rounds = Remembered(), "", 0, 0
        self.client: Client | None = None
        self.step_s = 0.0  # expected seconds of a local step, as measured
        self._waiting: list[Message] = []  # until the initial model has come
        self._welcome: Mapping[str, Any] | None = None
        self._results: dict[int, Vector] = {}  # deltas of finished sessions, by number
        self._done: tuple[Vector, int] | None = None  # an interruptible session that took all its steps
        self._interruption: Message | None = None  # came while it trained
        self._greetings, self._greeting = 0, True  # hello was said, or is to be; the welcome has not come
        # an interruption that came before the answer to the last upload
        self._deferred: Message | None = None
        self._wants = self._paused = False  # `_wants`: the server knows that it waits for a model
        self._reaction = Reaction()

    def adopt(self, algorithm: Algorithm, seed: int) -> None:
        """The model as this algorithm trains it: some parameters may stay on the client."""
        self.task = personal_task(self._whole, algorithm, seed)

    # ------------------------------------------------------------ what happened

    def connected(self) -> Reaction:
        """A connection stands: say what this client holds and does."""
        return self._reacting(self._say_hello)

    def disconnected(self) -> Reaction:
        """Training goes on; whatever comes before the next welcome is void."""
        self._greeting = True
        return Reaction()

    def receive(self, message: Message) -> Reaction:
        """Between hello and welcome nothing counts: the server sent it before it knew what this client holds."""
        if self._greeting:
            return Reaction()
        if "stamp" in message.header:
            self.memory.stamp = tuple(message.header["stamp"])
        if self._welcome is not None and message.kind is not MessageKind.INITIAL:
            self._waiting.append(message)
            return Reaction()
        return self._reacting(lambda: self._handlers[message.kind](self, message))

    def trained(self, session: int, delta: Vector, steps: int) -> Reaction:
        """Local training ended, after all its steps or where it was stopped."""
        return self._reacting(lambda: self._trained(session, delta, steps))

    def looked_up(self) -> Reaction:
        """From time to time: the owner may have changed its mind about taking work."""
        return self._reacting(self._ask_owner)

    @property
    def doing(self) -> list[int] | None:
        """Version and round of the session under way."""
        if self.client is None:
            return None
        session = self.client.state.running or self.client.state.outbox
        return None if session is None else [session.version, session.round]

    def _reacting(self, what: Callable[[], None]) -> Reaction:
        self._reaction = Reaction()
        what()
        return self._reaction

    # ------------------------------------------------------------ greetings

    def _say_hello(self) -> None:
        self._wants = self._paused = False
        self._greeting, self._deferred, self._greetings = True, None, self._greetings + 1
        upload = self.memory.client.upload
        header = {
            "greeting": self._greetings,
            "restarted": self.client is None,
            "samples": self.samples,
            "acknowledged": self.memory.acknowledged,
            "upload": 0 if upload is None else upload.session,
            "origin": 0 if upload is None else self.memory.origins.get(upload.session, 0),
            "doing": self.doing,
            "stamp": list(self.memory.stamp),
        }
        self._say(Message(MessageKind.HELLO, header))

    def welcome(self, run: bytes, message: Message) -> Reaction:
        """The server's answer to hello, which is read before run and plan are known."""
        if message.kind is MessageKind.BYE:
            return Reaction(bye=message.header["reason"])
        return self._reacting(lambda: self._welcomed(run, message.header))

    def _welcomed(self, run: bytes, header: Mapping[str, Any]) -> None:
        if header["greeting"] != self._greetings:
            return  # the answer to a greeting on a connection that broke
        self._greeting = False
        if self.client is None:
            self._begin_run(run, header)
        elif run != self.envelope.run or header["plan"] != self.plan_text:
            self._reaction.bye = "the server began another run"
            return
        if self.client is not None:
            self._settle(header)

    def _begin_run(self, run: bytes, header: Mapping[str, Any]) -> None:
        if run != self.envelope.run:  # what it remembers is of another run
            self.memory = Remembered(stamp=tuple(header["stamp"]))
        self.envelope = Envelope(run, digest(header["plan"]))
        try:
            plan = self.owner.read(header["plan"])
        except ConfigError as error:
            self._say(Message(MessageKind.LEAVE))
            self._reaction.error = error
            return
        self.plan_text, self.seed, self.rounds = plan.text, header["seed"], header["rounds"]
        self.adopt(plan.algorithm, self.seed)
        made = self._made_initial()
        if model_sha256(made) == header["initial"]:
            self._start(plan, header["client"], made)
        else:
            self._welcome = header
            self._say(Message(MessageKind.LACK))

    def _got_initial(self, message: Message) -> None:
        """The server's initial model, where this machine made another one; and what came meanwhile."""
        header, self._welcome = self._welcome, None
        if header is None:
            return
        self.memory.initial = initial = self._decoded_initial(message)
        self._start(self.owner.read(header["plan"]), header["client"], initial)
        self._settle(header)
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            self._handlers[each.kind](self, each)

    def _made_initial(self) -> Vector:
        return self.task.initial(self.seed) if self.memory.initial is None else self.memory.initial

    def _decoded_initial(self, message: Message) -> Vector:
        return freeze(Dense().decode(message.frames["initial"], self.task.layout.size))

    def _start(self, plan: RunPlan, number: int, initial: Vector) -> None:
        config = ClientConfig.of(plan.algorithm.bound(self.task.layout), initial, self.seed)
        self.client = Client(config, number, self.samples, self.step_s)
        self.client.state = self.memory.client
        self.client.recovered()
        self.client.state.seen = -1  # what it began and did not send, it begins again

    def _settle(self, header: Mapping[str, Any]) -> None:
        """The server says what it took: send again what it did not, or continue from nothing."""
        client = self._client
        if header["forget"]:
            self._reaction.stop = client.state.running is not None
            client.forget()
            self._results, self._done, self._interruption = {}, None, None
        upload = client.connected(header["taken"])
        self._remember(header["taken"], header["stamp"])
        if upload is not None:
            self._send(upload)
        self._ask_owner()
        self._want()

    def _remember(self, taken: int, stamp: Sequence[int]) -> None:
        self.memory.client, self.memory.acknowledged = self._client.state, taken
        self.memory.stamp, self._reaction.save = (stamp[0], stamp[1]), True

    # ------------------------------------------------------------ orders

    def _got_model(self, message: Message) -> None:
        self._wants = False
        model = messages.to_sent_model(message)
        if model is not None and not self._paused:
            self._take(model)

    def _take(self, model: SentModel) -> None:
        """Begin a session, unless it is the one under way; one that was overtaken is given up."""
        client = self._client
        if self._knows(model.parcel):
            return
        if client.state.running is not None:
            client.lose()
            self._done, self._interruption = None, None
        self._begin(model)

    def _knows(self, parcel: Parcel) -> bool:
        s = self._client.state
        known = [(each.version, each.round) for each in (s.running, s.outbox, s.upload) if each is not None]
        again = isinstance(self._client.config.behaviour, Interruptible)  # from the same one
        return not again and (parcel.version, parcel.round) in known

    def _begin(self, model: SentModel) -> None:
        client, parcel = self._client, model.parcel
        try:
            session = client.begin(parcel)
        except RemoteError:
            self._say(messages.of_update(client.resync(parcel)))
            return
        client.state.seen = max(client.state.seen, parcel.version)
        self.memory.began(session.number, model.origin)
        steps = self.owner.steps(session.steps)
        require(1 <= steps <= session.steps, "steps of a session", steps, f"in 1..{session.steps}")
        client.state.running = session = replace(session, steps=steps)
        self._reaction.save, self._reaction.train = True, replace(request(client, session), data=self.data)

    def _polled(self, message: Message) -> None:
        if self._client.polled():
            self._upload()

    def _interrupted(self, message: Message) -> None:
        if self._client.state.upload is not None:
            self._deferred = message
        elif self._client.state.running is None:
            self._say(Message(MessageKind.DROPPED, {"round": message.header["round"]}))
        elif self._done is not None:
            self._reply(*self._done, message)
        else:
            self._interruption, self._reaction.stop = message, True

    def _trained(self, number: int, delta: Vector, steps: int) -> None:
        client = self._client
        session = client.state.running
        if session is None or session.number != number:
            return  # it was given up meanwhile
        if not isinstance(client.config.behaviour, Interruptible):
            self._finish(session, delta, steps)
        elif self._interruption is not None:
            interruption, self._interruption = self._interruption, None
            self._reply(delta, steps, interruption)
        else:
            self._done = (delta, steps)

    def _finish(self, session: Session, delta: Vector, steps: int) -> None:
        client = self._client
        if steps != session.steps:  # the training was stopped because this machine shuts down
            client.lose()
            return
        older = client.state.outbox
        if older is not None:
            self._results.pop(older.number, None)
        self._results[session.number] = delta
        if client.finish():
            self._upload()
        self._want()

    def _reply(self, delta: Vector, steps: int, interruption: Message) -> None:
        """An interrupted client sends what it has, and trains on where it averages."""
        client, self._done = self._client, None
        session = client.interrupt(steps)
        self._results[session.number] = delta
        self._upload()
        model = messages.to_sent_model(interruption)
        if model is not None and client.goes_on():
            self._begin(model)

    def _upload(self) -> None:
        """Encode the session in the send buffer; its state is on the disk before it is sent."""
        client = self._client
        session = client.state.outbox
        assert session is not None, "the machine said that there is something to upload"
        update = client.encode(self._results.pop(session.number))
        self._reaction.save = True
        self._send(update)

    def _send(self, update: Update) -> None:
        """Not before the welcome, which says whether the server still lacks it: that is when it is sent."""
        if not self._greeting:
            self._say(messages.of_update(update, self.memory.origins.get(update.session, 0)))

    def _answered(self, message: Message) -> None:
        client, session = self._client, message.header["session"]
        upload, receipt = client.state.upload, messages.to_receipt(message.header)
        if upload is None or upload.session != session:
            return  # the answer to a message that was repeated
        another = client.acknowledged(receipt)
        self.memory.acknowledged = max(self.memory.acknowledged, receipt.taken)
        if not receipt.accepted:  # one that trains continuously may train on the same model again
            client.state.seen = min(client.state.seen, upload.version - 1)
        if another:
            self._upload()
        deferred, self._deferred = self._deferred, None
        if deferred is not None:
            self._interrupted(deferred)
        self._want()

    # ------------------------------------------------------------ what it asks for

    def _want(self) -> None:
        """A client that trains continuously waits for the next model."""
        client, behaviour = self._client, self._client.config.behaviour
        idle = isinstance(behaviour, Continuous) and client.ready() and not (self._wants or self._paused)
        if idle and isinstance(behaviour, Continuous):
            self._wants = True
            newest = REUSE_ANY if behaviour.reuse_model else client.state.seen
            self._say(Message(MessageKind.WANT, {"newer_than": newest}))

    def _ask_owner(self) -> None:
        if self.client is None:
            return
        accepts = self.owner.accept()
        if accepts and self._paused:
            self._paused = False
            self._say(Message(MessageKind.READY))
            self._want()
        elif not accepts and not self._paused:
            self._pause()

    def _pause(self) -> None:
        """Give up the session under way; an upload without an answer stays."""
        client, self._paused, self._wants = self._client, True, False
        if client.state.running is not None:
            client.state.seen = min(client.state.seen, client.state.running.version - 1)
            client.lose()
            self._reaction.stop = True
            self._done = self._interruption = None
        self._say(Message(MessageKind.PAUSE))

    def _evaluate(self, message: Message) -> None:
        """Measure a model, or add up for its statistics; once it is the last, what trains now would come too late."""
        self._reaction.evaluate = messages.to_model(message, self.task.layout.size)
        self._reaction.adds_up = message.kind is MessageKind.ESTIMATE
        self._reaction.stop = message.header["version"] >= self.rounds

    def _say(self, message: Message) -> None:
        self._reaction.send.append(message)

    @property
    def _client(self) -> Client:
        if self.client is None:
            raise RemoteError("the server sent orders before its WELCOME")
        return self.client

    _handlers: Mapping[MessageKind, Callable[[Participant, Message], None]] = {
        MessageKind.INITIAL: _got_initial,
        MessageKind.MODEL: _got_model,
        MessageKind.POLL: _polled,
        MessageKind.INTERRUPT: _interrupted,
        MessageKind.RECEIPT: _answered,
        MessageKind.EVALUATE: _evaluate,
        MessageKind.ESTIMATE: _evaluate,
        MessageKind.RECALL: lambda self, _: self._say_hello(),
    }
