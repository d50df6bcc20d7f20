"""Server and clients under a virtual clock. Handlers, one per phase of an instant; nothing here knows an algorithm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fedpace.client import Client, ClientState, Delivery, Kit, Session
from fedpace.compute.protocol import Engine, Request, Task
from fedpace.errors import StalledError
from fedpace.pace.protocol import Continuous, Interruptible, OnDemand
from fedpace.server import Announce, Ask, Deliver, Parcel, Server, Step, Stop, Update
from fedpace.sim.availability import absent_at_start, changes
from fedpace.sim.broadcasts import Announced, Broadcasts
from fedpace.sim.population import Devices
from fedpace.sim.timeline import Phase, Timeline
from fedpace.sim.traffic import Traffic
from fedpace.vector import Vector


@dataclass(slots=True)
class Tally:
    """What the run did, counted."""

    bytes_up: int = 0
    bytes_down: int = 0
    sessions: int = 0
    solved: int = 0  # sessions whose result was computed
    overwritten: int = 0
    dropped: int = 0
    uploads: int = 0


@dataclass(slots=True)
class SimState:
    """All a simulation knows beside the server and the clients."""

    line: Timeline = field(default_factory=Timeline)
    broadcasts: Broadcasts = field(default_factory=Broadcasts)
    idle: set[int] = field(default_factory=set)  # would start if a model came
    dispatch_at: float = -1.0  # the instant a dispatch is already scheduled for
    tally: Tally = field(default_factory=Tally)
    traffic: Traffic = field(default_factory=Traffic)


class Watcher:
    """Told what happens; does nothing. Recorders and invariant checks override what they care for."""

    def stepped(self, step: Step, now: float, tally: Tally) -> None: ...

    def began(self, client: int, session: Session) -> None: ...

    def uploading(self, client: int, session: Session, now: float, until: float) -> None: ...

    def ended(self, client: int, session: Session, fate: str, version: int | None) -> None: ...


class Simulation:
    def __init__(
        self,
        server: Server,
        task: Task,
        devices: Devices,
        engine: Engine,
        watcher: Watcher,
        *,
        eager: bool = False,
    ) -> None:
        self.server, self.task, self.devices, self.engine = server, task, devices, engine
        self.watcher, self.eager = watcher, eager
        self.kit = Kit.of(server.algorithm, server.state.x.size, server.seed)
        self.clients: dict[int, Client] = {}
        self.state = SimState()
        self._ready_made: dict[tuple[int, int], Vector] = {}
        if not isinstance(self.kit.behaviour, OnDemand):
            self.state.idle = set(range(task.clients))
        self._handlers: dict[Phase, Callable[[int, Any], None]] = {
            Phase.CHANGE: self._changed,
            Phase.COMPUTED: self._computed,
            Phase.UPLINK: self._arrived,
            Phase.WAKE: self._woke,
            Phase.DISPATCH: self._dispatch,
            Phase.DOWNLINK: self._delivered,
            Phase.START: self._start,
        }

    def begin(self) -> None:
        """Put the first events on the line: who comes and goes, and the server's first orders."""
        self._schedule_changes()
        self._want_dispatch()

    def run(self, rounds: int, pause: int | None = None) -> None:
        """Until the server has taken `rounds` steps, or `pause` steps if that is sooner; then between two events."""
        line = self.state.line
        until = rounds if pause is None else min(rounds, pause)
        while self.server.state.version < until:
            if not len(line):
                raise StalledError(
                    f"nothing can happen after step {self.server.state.version} of {rounds} at {line.now:g} virtual "
                    f"seconds: no client is at work and none will come back"
                )
            _, phase, client, _, what = line.pop()
            self._handlers[phase](client, what)

    def restore(self, state: SimState, clients: Mapping[int, ClientState]) -> None:
        """Go on from here instead of beginning; sessions under way are solved, or announced, again."""
        self.state = state
        for number, own in clients.items():
            client = self._client(number)
            client.state = own
            if not isinstance(self.kit.behaviour, Interruptible):
                self._take_up(client)

    def _take_up(self, client: Client) -> None:
        running = client.state.running
        if self.eager:
            for session in (running, client.state.outbox):
                if session is not None:
                    made = self.engine.result(self._request(client, session))
                    self._ready_made[client.number, session.number] = made
        elif running is not None and (client.state.wanted or self._will_be_sent(client, running)):
            self._announce(client, running)

    def _will_be_sent(self, client: Client, session: Session) -> bool:
        return not self.kit.polled and not self.devices.drops(client.number, session.number)

    # ------------------------------------------------------------ phase by phase

    def _changed(self, client: int, present: bool) -> None:
        if present:
            self.server.joined(client)
            self.state.line.at(self.now, Phase.START, client)
        else:
            known = self.clients.get(client)
            if known is not None and known.state.running is not None:
                self._lose(known)
            self._take_steps(self.server.left(client))
        self._want_dispatch()

    def _computed(self, number: int, session_number: int) -> None:
        client = self.clients[number]
        session = client.state.running
        if session is None or session.number != session_number:
            return  # it was lost or interrupted meanwhile
        if self.devices.drops(number, session_number):
            self._lose(client)
            if isinstance(self.kit.behaviour, OnDemand):
                self._take_steps(self.server.lost(number))
                self._want_dispatch()
        else:
            self._replace_stored(client)
            if client.finish():
                self._upload(client)
        if not self.devices.serial or not isinstance(self.kit.behaviour, OnDemand):
            self.state.line.at(self.now, Phase.START, number)

    def _arrived(self, number: int, update: Update) -> None:
        client, tally = self.clients[number], self.state.tally
        session = client.state.upload
        assert session is not None
        tally.bytes_up += update.size_bytes
        self.state.traffic.uploaded(number, update.frames, update.steps, self.kit.size)
        receipt = self.server.receive(update, self.now)
        another = client.acknowledged(receipt)
        version = self.server.state.version + (0 if receipt.steps else 1)
        self._let_go(number, session, "consumed" if receipt.accepted else "refused", version)
        self._take_steps(receipt.steps)
        if another:
            self._upload(client)
        self.state.line.at(self.now, Phase.START, number)
        self._want_dispatch()

    def _woke(self, _: int, when: float) -> None:
        if self.server.state.wake_at == when:
            self._take_steps(self.server.woke(self.now))
            self._want_dispatch()

    def _dispatch(self, *_: Any) -> None:
        self.state.dispatch_at = -1.0
        waking = self.server.state.wake_at
        for message in self.server.dispatch(self.now):
            match message:
                case Deliver():
                    self._send(message)
                case Announce():
                    self._broadcast(message)
                case Ask():
                    self._ask(message)
                case Stop():
                    self._stop(message)
        wake_at = self.server.state.wake_at
        if wake_at is not None and wake_at != waking:
            self.state.line.at(wake_at, Phase.WAKE, what=wake_at)

    def _delivered(self, number: int, delivery: Delivery) -> None:
        client = self._client(number)
        if client.state.inbox is not None:
            self.server.state.versions.release(client.state.inbox.version)
        client.deliver(delivery.version, delivery.round)
        self.state.line.at(self.now, Phase.START, number)

    def _start(self, number: int, _: Any) -> None:
        client = self._client(number)
        held_up = self.devices.serial and not self.kit.polled and client.state.upload is not None
        if number in self.server.state.absent or held_up or not client.ready():
            return
        delivery = self._model_for(client)
        if delivery is not None:
            self.state.idle.discard(number)
            self._begin(client, delivery)
        elif not isinstance(self.kit.behaviour, OnDemand):
            self.state.idle.add(number)
            arrival = self.state.broadcasts.next_arrival_s(number, self.now, self.devices)
            if arrival is not None:
                self.state.line.at(arrival, Phase.START, number)

    # ------------------------------------------------------------ what the server ordered

    def _send(self, message: Deliver) -> None:
        versions, number = self.server.state.versions, message.client
        versions.hold(message.version)
        delay = 0.0
        if not self.devices.serial and self.kit.down.shared:  # else it is charged when it is taken out
            size = self.server.retrieve(number, message.version, message.round).size_bytes
            delay = self.devices.download_s(number, size)
        what = Delivery(message.version, message.round)
        self.state.line.at(self.now + delay, Phase.DOWNLINK, number, what)

    def _broadcast(self, message: Announce) -> None:
        size = 0
        if not self.devices.serial and self.kit.down.shared:
            parcel = self.server.retrieve(0, message.version, message.round)
            present = self.task.clients - len(self.server.state.absent)
            size = parcel.size_bytes
            self.state.tally.bytes_down += size * present
            self.state.traffic.broadcast(parcel.frames, self.kit.size, present)
        entry = Announced(self.now, Delivery(message.version, message.round), size)
        self.state.broadcasts.add(entry, self.server.state.versions, self.devices)
        for number in self.state.idle:
            when = self.state.broadcasts.reaches_s(entry, number, self.devices)
            self.state.line.at(when, Phase.START, number)

    def _ask(self, message: Ask) -> None:
        client = self._client(message.client)
        if client.polled():
            self._upload(client)
        elif client.state.running is not None:
            self._announce(client, client.state.running)

    def _stop(self, message: Stop) -> None:
        client = self._client(message.client)
        if client.state.running is None:
            self._take_steps(self.server.lost(message.client))
            self._want_dispatch()
            return
        session = client.interrupt(self.now)
        delta = self._upload(client)
        if self.kit.averaging is not None:
            model = self.server.state.versions[message.version]
            parcel = self.server.retrieve(message.client, message.version, message.version)
            self._downloaded(client, parcel)
            begins = self.now + self.devices.download_s(message.client, parcel.size_bytes)
            self._run_until_done(
                client, client.go_on(client.averaged(session, delta, model), session, begins), begins
            )

    # ------------------------------------------------------------ sessions

    def _begin(self, client: Client, delivery: Delivery) -> None:
        """Take the model out of the receive buffer and train; the session now holds the version."""
        versions, devices = self.server.state.versions, self.devices
        parcel = self.server.retrieve(client.number, delivery.version, delivery.round)
        public = versions[delivery.version] if self.kit.down.shared else None
        session = client.begin(parcel, public, self.now)
        if public is None:
            self.state.traffic.down.compare(versions[delivery.version], session.start)
        begins = self.now
        charged = devices.serial or not self.kit.down.shared
        if charged or isinstance(self.kit.behaviour, OnDemand):
            self._downloaded(client, parcel)
        if charged:
            begins += devices.download_s(client.number, parcel.size_bytes)
        self._run_until_done(client, session, begins)

    def _run_until_done(self, client: Client, session: Session, begins: float) -> None:
        number = client.number
        ends = begins + self.devices.compute_s(number, session.number, session.steps)
        session = client.set_times(begins, ends)
        self.state.tally.sessions += 1
        self.watcher.began(number, session)
        if isinstance(self.kit.behaviour, Interruptible):
            return  # it works until it is stopped
        self.state.line.at(ends, Phase.COMPUTED, number, session.number)
        if self.eager:
            self._ready_made[number, session.number] = self._solve(client, session)
        elif self._will_be_sent(client, session):
            self._announce(client, session)

    def _upload(self, client: Client) -> Vector:
        """Solve what lies in the send buffer, encode it and put it on its way."""
        session = client.state.outbox
        assert session is not None
        delta = self._ready_made.pop((client.number, session.number), None)
        if delta is None:
            delta = self._solve(client, session)
        update = client.encode(delta)
        self._measure_loss(client, delta, update)
        until = self.now + self.devices.upload_s(client.number, update.size_bytes)
        self.state.tally.uploads += 1
        self.watcher.uploading(client.number, session, self.now, until)
        self.state.line.at(until, Phase.UPLINK, client.number, update)
        return delta

    def _downloaded(self, client: Client, parcel: Parcel) -> None:
        self.state.tally.bytes_down += parcel.size_bytes
        self.state.traffic.downloaded(client.number, parcel.frames, self.kit.size)

    def _measure_loss(self, client: Client, delta: Vector, update: Update) -> None:
        """What the server will use of an update, against what was meant."""
        if self.kit.exact or "update" not in update.frames:
            return
        memory = self.server.state.up.get(client.number)
        if memory is None:
            memory = self.kit.up.init(delta.size, delta.dtype)
        used, _ = self.kit.up.receive(update.frames["update"], memory, delta.size)
        self.state.traffic.up.compare(delta, used)

    def _solve(self, client: Client, session: Session) -> Vector:
        self.state.tally.solved += 1
        return self.engine.result(self._request(client, session))

    def _announce(self, client: Client, session: Session) -> None:
        self.engine.announce(self._request(client, session), session.ends_s)

    def _request(self, client: Client, session: Session) -> Request:
        return Request(
            client=client.number,
            session=session.number,
            start=session.start,
            version=session.version,
            local=self.server.algorithm.local,
            steps=session.steps,
            seed=self.server.seed,
            correction=session.correction,
        )

    def _lose(self, client: Client) -> None:
        """The running session comes to nothing."""
        session = client.abandon()
        assert session is not None
        self.state.tally.dropped += 1
        self.engine.forget(self._request(client, session))
        keeps_model = client.state.inbox is not None and client.state.inbox.version == session.version
        self._let_go(client.number, session, "dropped", None, holds=keeps_model)

    def _replace_stored(self, client: Client) -> None:
        """A newer result overwrites an older one that was never asked for."""
        older = client.state.outbox
        if older is not None:
            self.state.tally.overwritten += 1
            self._ready_made.pop((client.number, older.number), None)
            self._let_go(client.number, older, "overwritten", None)

    def _let_go(
        self, number: int, session: Session, fate: str, version: int | None, holds: bool = False
    ) -> None:
        """A session is over: report its fate, release its version unless the receive buffer still holds it."""
        self.watcher.ended(number, session, fate, version if fate == "consumed" else None)
        if session.version >= 0 and not holds:
            self.server.state.versions.release(session.version)

    # ------------------------------------------------------------ small print

    @property
    def now(self) -> float:
        return self.state.line.now

    def _client(self, number: int) -> Client:
        client = self.clients.get(number)
        if client is None:
            step_s = self.devices.expected_step_s(number)
            client = Client(self.kit, number, self.task.samples(number), step_s)
            self.clients[number] = client
        return client

    def _model_for(self, client: Client) -> Delivery | None:
        """What this client would start from; the version it names is held for the session."""
        s, versions = client.state, self.server.state.versions
        newest = self.state.broadcasts.newest(client.number, self.now, self.devices)
        known = max(s.seen, s.inbox.version if s.inbox is not None else -1)
        reuse = isinstance(self.kit.behaviour, Continuous) and self.kit.behaviour.reuse_model
        if newest is not None and (newest.version > known or (reuse and s.inbox is None)):
            if s.inbox is not None:
                versions.release(s.inbox.version)
                s.inbox = None
            s.seen = newest.version
            versions.hold(newest.version)
            return newest
        return client.take()

    def _take_steps(self, steps: tuple[Step, ...]) -> None:
        for step in steps:
            self.watcher.stepped(step, self.now, self.state.tally)

    def _want_dispatch(self) -> None:
        if self.state.dispatch_at != self.now:
            self.state.dispatch_at = self.now
            self.state.line.at(self.now, Phase.DISPATCH)

    def _schedule_changes(self) -> None:
        windows = self.devices.population.windows
        if windows is not None:
            for number in absent_at_start(windows, self.task.clients):
                self.server.left(number)
            for when, number, present in changes(windows):
                self.state.line.at(when, Phase.CHANGE, number, present)
