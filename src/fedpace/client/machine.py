"""The sans-I/O client: what an arriving message means, and what becomes of a finished session.

Nothing here computes a gradient. A session is a promise: the driver has it solved when its bytes are
needed, and never if they are not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedpace.algorithm import Algorithm
from fedpace.client.state import ClientState, Delivery, Session
from fedpace.link import Dense, NonFiniteError, Plain
from fedpace.link.protocol import Context, Downlink, Uplink
from fedpace.pace.protocol import Behaviour, Continuous, Interruptible
from fedpace.random import stream
from fedpace.server.messages import Parcel, Receipt, Update
from fedpace.spill import Slab
from fedpace.vector import Vector

CONTROL = Dense()  # the codec of the second vector that a correction sends
NO_DRAWS = np.random.default_rng(0)  # handed to rules that draw nothing


@dataclass(frozen=True, slots=True)
class Memories:
    """What a client will remember once its upload is acknowledged."""

    up: Any
    control: Any


@dataclass(frozen=True, slots=True)
class Kit:
    """What all clients of a run share."""

    algorithm: Algorithm
    behaviour: Behaviour
    up: Uplink
    down: Downlink
    initial: Vector  # the model before training, which anybody can make from the seed
    seed: int
    exact: bool  # updates arrive as they were sent
    slab: Slab | None  # where memories are kept, if not in memory

    @classmethod
    def of(cls, algorithm: Algorithm, initial: Vector, seed: int, slab: Slab | None = None) -> Kit:
        up, down = algorithm.uplink, algorithm.downlink
        return cls(algorithm, algorithm.pace.client, up, down, initial, seed, up == Plain(), slab)

    @property
    def size(self) -> int:
        return self.initial.size

    @property
    def polled(self) -> bool:
        return isinstance(self.behaviour, Continuous) and self.behaviour.polled

    @property
    def averaging(self) -> int | None:
        return self.behaviour.averaging if isinstance(self.behaviour, Interruptible) else None


class Client:
    """One client. `samples` is its n_i, `step_s` its expected seconds per local step."""

    __slots__ = ("kit", "number", "samples", "state", "step_s")

    def __init__(self, kit: Kit, number: int, samples: float, step_s: float) -> None:
        self.kit, self.number, self.samples, self.step_s = kit, number, samples, step_s
        self.state = ClientState()

    # ------------------------------------------------------------ receive buffer

    def deliver(self, version: int, round: int) -> None:
        """A model reaches the receive buffer; an older one in it is overwritten."""
        self.state.inbox = Delivery(version, round)

    def ready(self) -> bool:
        """Whether a session may start, if there is a model to start from."""
        s = self.state
        return s.running is None and not s.resting and (s.outbox is None or self.kit.polled)

    def take(self) -> Delivery | None:
        """Empty the receive buffer."""
        delivery, self.state.inbox = self.state.inbox, None
        return delivery

    def begin(self, parcel: Parcel, public: Vector | None) -> Session:
        """Start a session from a parcel; `public` is the decoded model where everybody decodes the same."""
        s, kit, correction = self.state, self.kit, None
        start = public
        if start is None:
            if "seed" in parcel.frames:
                s.held = kit.down.seeded(kit.initial)
            start, s.held = kit.down.receive(parcel.frames["model"], s.held, kit.size)
        if kit.algorithm.correction is not None:
            control = CONTROL.decode(parcel.frames["control"], kit.size)
            correction = kit.algorithm.correction.before(s.control, control)
        return self._session(start, parcel.version, parcel.round, parcel.context, correction)

    def go_on(self, start: Vector, last: Session) -> Session:
        """QuAFL: start the next session from a model only this client holds."""
        return self._session(start, -1, last.round, last.context)

    def _session(
        self, start: Vector, version: int, round: int, context: Context, correction: Vector | None = None
    ) -> Session:
        s, local = self.state, self.kit.algorithm.local
        s.sessions += 1
        rng = stream(self.kit.seed, "work", self.number, s.sessions) if local.random_work else NO_DRAWS
        steps = local.work(self.number, round, self.samples, self.step_s, rng)
        s.running = Session(s.sessions, version, round, start, steps, context, correction)
        return s.running

    # ------------------------------------------------------------ the end of a session

    def finish(self) -> bool:
        """The running session is done; True: upload it now."""
        s, behaviour = self.state, self.kit.behaviour
        s.outbox, s.running = s.running, None
        if isinstance(behaviour, Continuous) and behaviour.polled:
            s.resting = behaviour.energy_saving
            return s.wanted and s.upload is None
        return s.upload is None

    def leave(self) -> list[Session]:
        """Go away: what is computed and sent is lost, newest first. An update stored until it is asked for stays."""
        s, polled = self.state, self.kit.polled
        lost = (s.running, None if polled else s.outbox, s.upload)
        s.running = s.upload = s.pending = None
        s.outbox, s.wanted = s.outbox if polled else None, False
        return [session for session in lost if session is not None]

    def start_over(self, lost: Session) -> bool:
        """Who trains all the time puts the model of a lost session back, unless a newer one is there already."""
        s = self.state
        again = isinstance(self.kit.behaviour, Continuous) and s.inbox is None
        if again:
            s.inbox = Delivery(lost.version, lost.round)
        return again

    def polled(self) -> bool:
        """The server asks; True: upload now."""
        s = self.state
        s.wanted = True
        return s.outbox is not None and s.upload is None

    def interrupt(self, now: float) -> Session:
        """Stop with the whole steps done so far."""
        s, session = self.state, self.state.running
        assert session is not None, "only a client at work is interrupted"
        share = (now - s.times.began_s) / (s.times.ends_s - s.times.began_s)
        # a billionth of a step of slack, so that rounding never loses a step that was just finished
        done = min(session.steps, max(0, math.floor(session.steps * share + 1e-9)))
        s.outbox, s.running = replace(session, steps=done), None
        return s.outbox

    # ------------------------------------------------------------ uploads

    def encode(self, delta: Vector) -> Update:
        """The session in the send buffer as bytes; what it does to the memories waits for the acknowledgement."""
        s, kit = self.state, self.kit
        session, s.outbox, s.wanted, s.resting = s.outbox, None, False, False
        assert session is not None, "there is something to send"
        if s.up is None:
            s.up = kit.up.init(kit.size, delta.dtype)
        a_norm1 = kit.algorithm.local.a_norm1(session.steps) if session.steps else 0.0
        s.upload, s.pending = session, Memories(s.up, s.control)
        try:
            frames, s.pending = self._frames(session, delta, a_norm1)
        except NonFiniteError:
            frames = {}  # an empty update says that the session failed
        version = session.version if kit.averaging is None else -1
        return Update(
            self.number, session.number, version, session.round, session.steps, a_norm1, self.samples, frames
        )

    def _frames(self, session: Session, delta: Vector, a_norm1: float) -> tuple[dict[str, bytes], Memories]:
        """What is sent, and what will be remembered once it has arrived."""
        s, kit = self.state, self.kit
        rng = NO_DRAWS if kit.exact else stream(kit.seed, "up", self.number, session.number)
        sent = delta if kit.averaging is None else session.start + delta
        frame, up = kit.up.send(sent, s.up, session.context, rng)
        extra, control = self._corrected(session, delta, a_norm1)
        beside = {} if extra is None else {"control": CONTROL.encode(extra, rng)}
        return {"update": frame} | beside, Memories(up, control)

    def acknowledged(self, receipt: Receipt) -> bool:
        """The server answered; True: another finished session may be uploaded now."""
        s, kit = self.state, self.kit
        if receipt.accepted:
            kept = s.pending if kit.slab is None else kit.slab.keep(s.pending)
            s.up, s.control = kept.up, kept.control
        if receipt.resync:
            s.up = kit.up.resync(s.up)
        s.upload = s.pending = None
        return s.outbox is not None and (s.wanted or not kit.polled)

    def averaged(self, session: Session, delta: Vector, server_model: Vector) -> Vector:
        """QuAFL: the model to go on from, (X + s Y) / (s + 1), X being the server's before its step."""
        s = self.kit.averaging or 0
        return (server_model + s * (session.start + delta)) / (s + 1)

    # ------------------------------------------------------------ corrections

    def _corrected(self, session: Session, delta: Vector, a_norm1: float) -> tuple[Vector | None, Any]:
        """The second vector to send, and what the correction remembers once it is acknowledged."""
        correction, local = self.kit.algorithm.correction, self.kit.algorithm.local
        if correction is None:
            return None, None
        return correction.after(self.state.control, session.correction, delta, a_norm1, local.lr)
