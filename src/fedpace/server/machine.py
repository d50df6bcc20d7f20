"""The sans-I/O server: given a message and `now`, it returns what follows. It owns no clock and no socket."""

from __future__ import annotations

import math

import numpy as np

from fedpace.aggregate.protocol import Contribution
from fedpace.algorithm import Algorithm
from fedpace.errors import DivergedError, RemoteError, require_count
from fedpace.link import Dense, NonFiniteError, ResyncError
from fedpace.link.protocol import Context
from fedpace.pace.crowd import Crowd
from fedpace.pace.protocol import Broadcast, Interrupt, Order, Poll, Send, WakeAt, awaited
from fedpace.random import stream
from fedpace.server.messages import Announce, Ask, Deliver, Message, Parcel, Receipt, Step, Stop, Update
from fedpace.server.state import Arrived, Members, ServerState
from fedpace.vector import Vector, freeze, is_finite

CONTROL = Dense()  # the codec of the second vector that a correction sends


class Server:
    """Driven by messages, by the clock, and by nothing else.

    A driver reports what happened (`receive`, `lost`, `joined`, `woke`) and, before time moves on, asks
    `dispatch` what to send. `retrieve` makes the frames of a model when a client takes it. `last` is the
    version after which no step is taken.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        x: Vector,
        clients: int,
        *,
        seed: int = 0,
        shares: Vector | None = None,
        cycle_s: float | None = None,
        last: int | None = None,
    ) -> None:
        require_count(clients, "clients")
        self.algorithm, self.clients, self.seed, self.last = algorithm, clients, seed, last
        self.up, self.down = algorithm.uplink, algorithm.downlink
        self._shares, self._cycle_s = shares, cycle_s
        x = freeze(x.copy())
        self.state = ServerState(
            x=x,
            opt=algorithm.server_opt.init(x),
            aggregate=algorithm.aggregate.init(x, clients),
            pace=algorithm.pace.init(clients),
            down=self.down.init(x, clients),
            control=algorithm.correction.init(x, clients) if algorithm.correction is not None else None,
        )
        self.state.versions.keeps = algorithm.pace.keeps
        self._publish()
        self._parcel: Parcel  # the last one made
        self._parcel_key: tuple[int, int, int] | None = None

    # ------------------------------------------------------------ what happened

    def receive(self, update: Update, now: float) -> Receipt:
        """An update came in: refuse it, or fold it in and perhaps take a step."""
        s = self.state
        if not 0 <= update.client < self.clients:
            s.counts.malformed += 1
            return Receipt(False, f"client {update.client}: there are {self.clients} clients")
        if update.session <= s.heard.get(update.client, 0):
            s.counts.duplicates += 1
            return Receipt(False, f"client {update.client}: session {update.session} came twice")
        if "update" not in update.frames:
            return self._refuse_not_finite(update)
        try:
            arrived, memory = self._decode(update)
        except NonFiniteError:
            return self._refuse_not_finite(update)
        except RemoteError as error:
            return self._refuse_malformed(update, error)
        s.bad_in_a_row = 0
        verdict, s.pace = self.algorithm.pace.arrived(arrived.header, s.version, s.pace)
        if verdict.count == 0:
            s.counts.refused += 1
            return Receipt(False, f"client {update.client}: {verdict.reason}")
        s.heard[update.client] = update.session
        if memory is not None:
            s.up[update.client] = memory
        if verdict.count is None:
            s.versions.hold(arrived.header.version)
            s.kept.append(arrived)
            return Receipt(True, verdict.reason)
        self._take(arrived, verdict.count)
        return Receipt(True, steps=self._steps(verdict.step))

    def lost(self, client: int) -> tuple[Step, ...]:
        """What this client was doing will not arrive."""
        step, self.state.pace = self.algorithm.pace.lost(client, self.state.pace)
        return self._steps(step)

    def left(self, client: int) -> tuple[Step, ...]:
        """A client is no longer there."""
        self.state.absent.add(client)
        return self.lost(client)

    def joined(self, client: int) -> None:
        """A client is there (again)."""
        self.state.absent.discard(client)
        self.state.pace = self.algorithm.pace.joined(client, self.state.pace)

    def woke(self, now: float) -> tuple[Step, ...]:
        """The time of `state.wake_at` has come."""
        self.state.wake_at = None
        step, self.state.pace = self.algorithm.pace.woke(now, self.state.pace)
        return self._steps(step)

    # ------------------------------------------------------------ what to do

    def dispatch(self, now: float) -> list[Message]:
        """What to send now. `state.wake_at` is when to call `woke`, if at all."""
        s = self.state
        crowd = Crowd(self.clients, s.absent, self._shares, self._cycle_s)
        orders, s.pace = self.algorithm.pace.dispatch(s.version, now, crowd, s.pace, self._draw)
        if orders and awaited(self.algorithm.pace, s.pace) > 1:
            s.bad_in_a_row = 0  # others are waited for now
        messages = (self._message(order) for order in orders)
        return [message for message in messages if message is not None]

    def retrieve(self, client: int, version: int, round: int) -> Parcel:
        """The frames of a model, made for the client that takes it now, or once for all where they are the same."""
        key = (self.state.version, version, round)
        if not self.down.shared or key != self._parcel_key:
            self._parcel, self._parcel_key = self._make_parcel(client, version, round), key
        return self._parcel

    def _make_parcel(self, client: int, version: int, round: int) -> Parcel:
        s = self.state
        frames = {}
        if self.down.seeds(client, s.down):
            frames["seed"] = (self.seed % 2**64).to_bytes(8, "little")
        frames["model"] = self._frame(client, version)
        if self.algorithm.correction is not None:
            control = self.algorithm.correction.broadcast(s.control)
            frames["control"] = CONTROL.encode(control, stream(self.seed, "down", version))
        context = Context(
            round=round,
            clients_per_step=self.algorithm.pace.per_step or self.clients,
            step_norms=s.step_norms,
        )
        return Parcel(version, round, frames, context)

    # ------------------------------------------------------------ the journey of an update

    def used(self, update: Update) -> Vector:
        """What this update will be taken for; changes nothing."""
        return self._delta(update)[0]

    def _delta(self, update: Update) -> tuple[Vector, object]:
        size, memory = self.state.x.size, self.state.up.get(update.client)
        if memory is None:
            memory = self.up.init(size, self.state.x.dtype)
        delta, memory = self.up.receive(update.frames["update"], memory, size)
        return delta.astype(self.state.x.dtype, copy=False), memory  # the wire may be coarser than the model

    def _decode(self, update: Update) -> tuple[Arrived, object]:
        whole_model = -1  # in place of a version
        known = update.version == whole_model or 0 <= update.version <= self.state.version
        sizes = (update.steps, update.a_norm1, update.samples)
        sound = all(math.isfinite(size) and size >= 0 for size in sizes)
        if not (known and sound and (update.a_norm1 > 0 or not update.steps)):
            raise RemoteError(f"version {update.version}, steps, a_norm1 and samples {sizes} make no sense")
        delta, memory = self._delta(update)
        control = None
        if self.algorithm.correction is not None:
            control = CONTROL.decode(update.frames.get("control", b""), self.state.x.size)
        arrived = Arrived(update.header, delta, update.steps, update.a_norm1, update.samples, control)
        return arrived, memory

    def _take(self, arrived: Arrived, count: int) -> None:
        s, header = self.state, arrived.header
        stale = s.version - header.version if header.version >= 0 else 0
        contribution = Contribution(
            client=header.client,
            delta=arrived.delta,
            count=count,
            samples=arrived.samples,
            steps=arrived.steps,
            a_norm1=arrived.a_norm1,
            staleness=stale,
            rng=lambda: stream(self.seed, "cache", header.client, header.session),
        )
        s.aggregate = self.algorithm.aggregate.add(
            contribution, self._start_of(header.version), s.x, s.aggregate
        )
        if self.algorithm.correction is not None and arrived.control is not None:
            s.control = self.algorithm.correction.fold(contribution, arrived.control, s.control)
        s.members.clients += [header.client] * count
        s.members.sessions += [header.session] * count
        s.members.staleness += [stale] * count
        s.counts.taken += 1

    def _steps(self, step: bool) -> tuple[Step, ...]:
        """The step that is due, and those that follow from updates kept for after it."""
        steps: list[Step] = []
        while step and self.state.version != self.last:
            steps.append(self._step())
            step = self._offer_kept()
        return tuple(steps)

    def _step(self) -> Step:
        s, rules = self.state, self.algorithm
        total, s.aggregate = rules.aggregate.result(s.aggregate)
        before = s.x
        x, s.opt = rules.server_opt.apply(before, total, s.opt)
        if not is_finite(x):
            raise DivergedError(
                f"the model is not finite after step {s.version + 1}; lower the learning rates"
            )
        s.x = freeze(x)
        s.version += 1
        if rules.correction is not None:
            s.control = rules.correction.stepped(s.control)
        self._remember_norm(before)
        self._publish()
        m, s.members = s.members, Members()
        return Step(s.version, s.x, tuple(m.clients), tuple(m.sessions), tuple(m.staleness))

    def _offer_kept(self) -> bool:
        """Offer what was kept to the new step, in order; True if that makes the next one due."""
        s, kept = self.state, self.state.kept
        s.kept = []
        for at, arrived in enumerate(kept):
            verdict, s.pace = self.algorithm.pace.arrived(arrived.header, s.version, s.pace)
            if verdict.count is None:
                s.kept.append(arrived)
                continue
            if verdict.count:
                self._take(arrived, verdict.count)
            s.versions.release(arrived.header.version)
            if verdict.step:
                s.kept += kept[at + 1 :]
                return True
        return False

    # ------------------------------------------------------------ models and frames

    def _publish(self) -> None:
        """Make the newest model available, as the clients will reconstruct it."""
        s, rng = self.state, stream(self.seed, "down", self.state.version)
        s.down = self.down.publish(s.x, s.version, s.down, rng)
        model = s.x
        if self.down.shared:
            model, _ = self.down.receive(self._frame(0, s.version, x=s.x), None, s.x.size)
        s.versions.add(s.version, freeze(model))

    def _frame(self, client: int, version: int, x: Vector | None = None) -> bytes:
        s = self.state
        key = (version,) if self.down.shared else (version, client)
        model = s.versions[version] if x is None else x
        frame, s.down = self.down.send(client, model, version, s.down, stream(self.seed, "down", *key))
        return frame

    def _start_of(self, version: int) -> Vector:
        if version < 0:
            return np.zeros_like(self.state.x)
        return self.state.versions.models.get(version, self.state.x)

    def _remember_norm(self, before: Vector) -> None:
        window = getattr(self.up, "window", 0)
        if window:
            moved = self.state.x - before
            self.state.step_norms = (float(moved @ moved), *self.state.step_norms)[:window]

    # ------------------------------------------------------------ small print

    def _refuse_malformed(self, update: Update, error: RemoteError) -> Receipt:
        s, resync = self.state, isinstance(error, ResyncError)
        s.counts.malformed += not resync
        s.counts.resyncs += resync
        if resync:
            s.up.pop(update.client, None)
        return Receipt(False, f"client {update.client}: {error}", resync, self.lost(update.client))

    def _refuse_not_finite(self, update: Update) -> Receipt:
        s = self.state
        s.counts.not_finite += 1
        s.bad_in_a_row += 1
        pace = self.algorithm.pace
        hopeless = awaited(pace, s.pace) or min(pace.per_step or self.clients, self.clients)
        if s.bad_in_a_row >= max(2, hopeless):  # a single one never ends a run
            raise DivergedError(
                f"the last {s.bad_in_a_row} updates were not finite, at step {s.version}; lower client_lr"
            )
        return Receipt(False, f"client {update.client}: update is not finite", steps=self.lost(update.client))

    def _message(self, order: Order) -> Message | None:
        version = self.state.version
        match order:
            case Send(client, past):
                return Deliver(client, version if past is None else past, version)
            case Broadcast():
                return Announce(version, version)
            case Poll(client):
                return Ask(client)
            case Interrupt(client):
                return Stop(client, version)
            case WakeAt(seconds):
                self.state.wake_at = seconds
                return None

    def _draw(self) -> np.random.Generator:
        self.state.draws += 1
        return stream(self.seed, "select", self.state.draws)
