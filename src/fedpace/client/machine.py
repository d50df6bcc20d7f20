"""The sans-I/O client: how it handles messages and finished sessions.

Nothing here computes a gradient. A session is a promise: the driver has it trained when its bytes are
needed, and never if they are not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedpace.algorithm import Algorithm
from fedpace.client.life import EMPTY, FREE, IDLE, STORED, YES, Event
from fedpace.client.state import ClientState, Delivery, Memories, Session
from fedpace.link import CONTROL, NonFiniteError, Plain
from fedpace.link.protocol import Downlink, Uplink
from fedpace.link.wire import frame as wire
from fedpace.local import SGD, at_step
from fedpace.local.personal import Personal
from fedpace.pace.protocol import Behaviour, Continuous, Interruptible
from fedpace.random import stream
from fedpace.server.messages import WHOLE_MODEL, Parcel, Receipt, Update
from fedpace.spill import Slab
from fedpace.vector import Vector, freeze, is_finite

NO_DRAWS = np.random.default_rng(0)  # handed to rules that draw nothing


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """What all clients of a run share; and what is asked for every session, looked up once."""

    algorithm: Algorithm
    behaviour: Behaviour
    up: Uplink
    down: Downlink
    initial: Vector  # the model before training, which any client can make from the seed
    seed: int
    exact: bool  # updates arrive as they were sent
    slab: Slab | None  # where memories are stored, if not in main memory
    shared: bool  # models arrive as the same bytes at every client
    paired: bool  # clients remember what must agree with the server
    random_work: bool  # the number of local steps is drawn
    steps: int | None  # ... or it is the same for every session
    personal: Personal | None
    continuous: bool  # clients train whenever there is a model
    polled: bool  # ... and keep a finished update until it is asked for
    rests: bool  # ... and rest until then
    reuses: bool  # ... and train on a model more than once
    interruptible: bool  # clients train until they are interrupted
    averaging: int | None  # ... and average the server's model into theirs

    @classmethod
    def of(cls, algorithm: Algorithm, initial: Vector, seed: int, slab: Slab | None = None) -> ClientConfig:
        up, down, client = algorithm.uplink, algorithm.downlink, algorithm.pace.client
        return cls(
            algorithm,
            client,
            up,
            down,
            initial,
            seed,
            exact=up == Plain(),
            slab=slab,
            shared=down.shared,
            paired=algorithm.paired,
            random_work=algorithm.local.random_work,
            steps=_constant(algorithm.local),
            personal=algorithm.personal,
            continuous=isinstance(client, Continuous),
            polled=isinstance(client, Continuous) and client.polled,
            rests=isinstance(client, Continuous) and client.energy_saving,
            reuses=isinstance(client, Continuous) and client.reuse_model,
            interruptible=isinstance(client, Interruptible),
            averaging=client.averaging if isinstance(client, Interruptible) else None,
        )

    @property
    def size(self) -> int:
        return self.initial.size


class Client:
    """One client. `samples` is its n_i, `step_s` its expected seconds per local step.

    Every method is an event of `life`, which says when it may come.
    """

    __slots__ = ("config", "number", "samples", "state", "step_s")

    def __init__(self, config: ClientConfig, number: int, samples: float, step_s: float) -> None:
        self.config, self.number, self.samples, self.step_s = config, number, samples, step_s
        self.state = ClientState()

    # ------------------------------------------------------------ receive buffer

    def deliver(self, version: int, round: int) -> None:
        """A model reaches the receive buffer; an older one in it is overwritten."""
        self.state.inbox = Delivery(version, round)

    def ready(self) -> bool:
        """Whether a session may start, if there is a model to start from."""
        life = self.state.life
        return life.work is IDLE and (life.store is EMPTY or self.config.polled)

    def take(self) -> Delivery | None:
        """Empty the receive buffer."""
        delivery, self.state.inbox = self.state.inbox, None
        return delivery

    def begin(self, parcel: Parcel) -> Session:
        """Start a session from a model; ResyncError if it builds on one that this client does not hold.

        A driver in the server's process saves the decoding where every client decodes the same.
        """
        s, config, correction = self.state, self.config, None
        s.life.move(Event.BEGIN)
        try:
            start = parcel.model if config.shared and parcel.model is not None else self._received(parcel)
            if config.paired:
                self._start_generation(parcel.generation)
            if config.algorithm.correction is not None:
                control = CONTROL.decode(parcel.frames["control"], config.size)
                correction = config.algorithm.correction.before(s.control, control)
        except Exception:
            s.life.move(Event.LOSE)
            raise
        version = parcel.version
        if s.own is not None:
            start, version, s.own = self._averaged(s.own, start), WHOLE_MODEL, None
        return self._session(start, version, parcel, correction)

    def resync(self, parcel: Parcel) -> Update:
        """What to send when `begin` raised ResyncError: the server then makes this model anew, in full."""
        self.state.held = None
        frames = {"resync": wire.build(wire.Kind.RESYNC, round=parcel.round)}
        version = parcel.version if self.config.averaging is None else WHOLE_MODEL
        session, generation = self.state.sessions + 1, parcel.generation
        return Update(self.number, session, version, parcel.round, 0, 0.0, self.samples, frames, generation)

    def _received(self, parcel: Parcel) -> Vector:
        s, config = self.state, self.config
        if "seed" in parcel.frames:
            s.held = config.down.seeded(config.initial)
        start, s.held = config.down.receive(parcel.frames["model"], s.held, config.size)
        if parcel.public is None or not np.array_equal(start, parcel.public):
            return start
        s.held = replace(s.held, model=parcel.public)
        return parcel.public

    def _averaged(self, own: Vector, server_model: Vector) -> Vector:
        """QuAFL: the model to continue from, (X + s Y) / (s + 1), X being the server's before its step."""
        s = self.config.averaging or 0
        return (server_model + s * own) / (s + 1)

    def _session(self, start: Vector, version: int, parcel: Parcel, correction: Vector | None) -> Session:
        s, config, steps = self.state, self.config, self.config.steps
        s.sessions += 1
        if steps is None:
            rng = stream(config.seed, "work", self.number, s.sessions) if config.random_work else NO_DRAWS
            steps = config.algorithm.local.work(self.number, parcel.round, self.samples, self.step_s, rng)
        s.running = Session(
            s.sessions,
            version,
            parcel.round,
            start,
            steps,
            parcel.context,
            correction,
            parcel.generation,
            s.kept,
            0 if config.personal is None else self._beside(config.personal, steps, parcel.round),
        )
        return s.running

    def _beside(self, personal: Personal, steps: int, round: int) -> int:
        """Steps of the new session that train only what stays here."""
        rng = stream(self.config.seed, "work", self.number, self.state.sessions, 1)
        about = (self.number, round, self.samples, self.step_s, rng)
        return personal.beside(steps, lambda rule: int(rule.work(*about)))

    def _start_generation(self, generation: int) -> None:
        """Corrections began anew on the server: what this client remembers of them is void."""
        if generation != self.state.generation:
            self.state.control, self.state.kept, self.state.generation = None, None, generation

    # ------------------------------------------------------------ the end of a session

    def finish(self) -> bool:
        """The running session is done; True: upload it now."""
        s, config = self.state, self.config
        s.life.move(Event.REST if config.rests else Event.FINISH)
        s.outbox, s.running = s.running, None
        return self._may_upload()

    def interrupt(self, steps: int) -> Session:
        """Stop with these whole steps done."""
        s, session = self.state, self.state.running
        s.life.move(Event.INTERRUPT)
        assert session is not None, "life says that it is training"
        s.outbox, s.running = replace(session, steps=steps), None
        return s.outbox

    def steps_done(self, now: float) -> int:
        """Whole steps of the running session, at an even pace between its beginning and its planned end."""
        session, times = self.state.running, self.state.times
        assert session is not None, "only a client that trains is asked"
        share = (now - times.began_s) / (times.ends_s - times.began_s)
        # a billionth of a step of slack, so that rounding never loses a step that was just finished
        return min(session.steps, max(0, math.floor(session.steps * share + 1e-9)))

    def step_ends_s(self, now: float) -> float:
        """When the local step under way ends; `now`, where none is."""
        session, times = self.state.running, self.state.times
        assert session is not None, "only a client that trains is asked"
        step_s = (times.ends_s - times.began_s) / session.steps
        steps = max(0, math.ceil((now - times.began_s) / step_s - 1e-9))
        return max(now, times.began_s + steps * step_s) if steps <= session.steps else now

    def lose(self) -> None:
        """The running session comes to nothing."""
        self.state.life.move(Event.LOSE)
        self.state.running = None

    def leave(self) -> list[Session | Update]:
        """Leave: running and sent sessions are lost, newest first. An update stored until polled stays."""
        s, polled = self.state, self.config.polled
        s.life.move(Event.LEAVE_STORED if polled else Event.LEAVE)
        lost = (s.running, None if polled else s.outbox, s.upload)
        s.running = s.upload = s.pending = None
        s.outbox = s.outbox if polled else None
        return [session for session in lost if session is not None]

    def start_over(self, version: int, round: int) -> bool:
        """A client that trains continuously puts a lost session's model back, unless a newer one has come."""
        s = self.state
        again = self.config.continuous and s.inbox is None
        if again:
            s.inbox = Delivery(version, round)
        return again

    def polled(self) -> bool:
        """The server asks; True: upload now."""
        self.state.life.move(Event.POLL)
        return self._may_upload()

    def is_wanted(self) -> bool:
        """Whether the server wants the next update: always, but where it polls."""
        return not self.config.polled or self.state.life.asked is YES

    def _may_upload(self) -> bool:
        life = self.state.life
        return life.store is STORED and life.line is FREE and self.is_wanted()

    def goes_on(self) -> bool:
        """Whether, interrupted, it averages the server's model into its own and trains on (QuAFL)."""
        return self.state.own is not None

    # ------------------------------------------------------------ uploads

    def encode(self, trained: Vector) -> Update:
        """The session in the send buffer as bytes; what it does to the memories waits for the acknowledgement.

        `trained`: its delta, and behind it what local training keeps.
        """
        s, config, session = self.state, self.config, self.state.outbox
        delta, kept = _parted(trained, config.size)
        s.life.move(Event.ENCODE)
        assert session is not None, "life says that something is stored"
        s.outbox = None
        if s.up is None:
            s.up = config.up.init(config.size, delta.dtype)
        if config.averaging is not None:
            s.own = session.start + delta if is_finite(delta) else None
        weight = getattr(
            config.algorithm.local, "a_norm1", float
        )  # where it is unknown nothing divides by it
        a_norm1 = weight(session.steps) if session.steps else 0.0
        try:
            frames, pending = self._frames(session, delta, a_norm1, kept)
            s.pending = pending if config.slab is None else config.slab.keep(pending)
        except NonFiniteError:  # an empty update says that the session failed
            frames, s.pending = {}, Memories(s.up, s.control, s.kept)
        version = session.version if config.averaging is None else WHOLE_MODEL
        work = (session.steps, a_norm1, self.samples)
        s.upload = Update(
            self.number, session.number, version, session.round, *work, frames, session.generation
        )
        return s.upload

    def _frames(
        self, session: Session, delta: Vector, a_norm1: float, kept: Vector | None
    ) -> tuple[dict[str, bytes], Memories]:
        """The frames, and the memories once they are acknowledged."""
        if kept is not None and not is_finite(kept):
            raise NonFiniteError("what it keeps is not finite")
        s, config, rule = self.state, self.config, self.config.algorithm.correction
        rng = NO_DRAWS if config.exact else stream(config.seed, "up", self.number, session.number)
        sent = delta if s.own is None else s.own
        frame, up = config.up.send(sent, s.up, session.context, rng)
        if rule is None:
            return {"update": frame}, Memories(up, None, kept)
        lr = at_step(config.algorithm.local, session.round).lr
        extra, control = rule.after(s.control, session.correction, delta, a_norm1, lr)
        return {"update": frame, "control": CONTROL.encode(extra, rng)}, Memories(up, control, kept)

    def acknowledged(self, receipt: Receipt) -> bool:
        """The server answered; True: another finished session may be uploaded now.

        `receipt.taken` decides what is remembered, so that a repeated answer, or the answer to a repeated upload,
        changes nothing.
        """
        s, config = self.state, self.config
        s.life.move(Event.ANSWER)
        s.sessions = max(s.sessions, receipt.taken)
        if s.upload is not None:
            if receipt.taken >= s.upload.session:
                self._remember()
            if receipt.resync:
                s.up = config.up.resync(s.up)
            s.upload = s.pending = None
        return self._may_upload()

    def connected(self, taken: int) -> Update | None:
        """The server says which of this client's sessions it took last; the update to send again, if any."""
        s = self.state
        s.sessions = max(s.sessions, taken)
        if s.upload is not None and taken >= s.upload.session:
            s.life.move(Event.ANSWER)
            self._remember()
            s.upload = s.pending = None
        return s.upload

    def forget(self) -> None:
        """What this client remembers is not what the server knows of: it continues from nothing but its numbering."""
        self.state = ClientState(sessions=self.state.sessions)

    def recovered(self) -> None:
        """After a restart: an upload without an answer stays with its memories, all that was not sent is dropped."""
        s = self.state
        s.life.move(Event.RECOVER)
        s.inbox = s.running = s.outbox = s.own = None

    def _remember(self) -> None:
        s, kept = self.state, self.state.pending
        assert kept is not None, "what was sent left something to remember"
        s.up = kept.up
        if s.upload is not None and s.upload.generation == s.generation:
            s.control, s.kept = kept.control, kept.kept


def _constant(local: Any) -> int | None:
    """The number of local steps where it depends on nothing; rules of other classes are asked for every session."""
    return local.steps if type(local) is SGD and isinstance(local.steps, int) else None


def _parted(trained: Vector, size: int) -> tuple[Vector, Vector | None]:
    """delta, and what local training keeps, if anything."""
    if trained.size == size:
        return trained, None
    return trained[:size], freeze(trained[size:].copy())
