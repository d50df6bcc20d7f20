"""Server and clients under a virtual clock. Handlers, one per phase of an instant; nothing here knows an algorithm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Concatenate, ParamSpec

from fedpace.client import Client, ClientState, Delivery, Kit, Session, Times
from fedpace.compute.protocol import Engine, Task
from fedpace.errors import StalledError
from fedpace.pace.protocol import Continuous, Interruptible, OnDemand
from fedpace.server import Announce, Ask, Deliver, Parcel, Server, Step, Stop, Update
from fedpace.server.versions import Versions
from fedpace.sim.availability import absent_at_start, changes
from fedpace.sim.broadcasts import Announced, Broadcasts
from fedpace.sim.population import Devices
from fedpace.sim.solves import Solves
from fedpace.sim.timeline import Phase, Timeline
from fedpace.sim.watcher import HOOKS, Tally, Watcher, overrides
from fedpace.spill import Slab
from fedpace.vector import Vector, is_finite

P = ParamSpec("P")


@dataclass(slots=True)
class SimState:
    """All a simulation knows beside the server and the clients."""

    line: Timeline = field(default_factory=Timeline)
    broadcasts: Broadcasts = field(default_factory=Broadcasts)
    idle: set[int] = field(default_factory=set)  # would start if a model came
    dispatch_at: float = -1.0  # the instant a dispatch is already scheduled for
    tally: Tally = field(default_factory=Tally)


class Simulation:
    """A version of the model is held by everything that may still need it: a broadcast, a model under way or in a
    receive buffer, and a session until its update has arrived or is lost.
    """

    def __init__(
        self,
        server: Server,
        task: Task,
        devices: Devices,
        engine: Engine,
        *watchers: Watcher,
        eager: bool = False,
        slab: Slab | None = None,
    ) -> None:
        self.server, self.task, self.devices, self.engine = server, task, devices, engine
        self.watchers = watchers
        self._told = {hook: [getattr(w, hook) for w in watchers if overrides(w, hook)] for hook in HOOKS}
        self.kit = Kit.of(server.algorithm, server.state.x, server.seed, slab)
        self.on_demand = isinstance(self.kit.behaviour, OnDemand)
        # whether a session pays for its model when it takes it out, not when it is sent
        self.charged = devices.serial or not self.kit.down.shared
        self.clients: dict[int, Client] = {}
        self.state = SimState(idle=set() if self.on_demand else set(range(task.clients)))
        self.solves = Solves(engine, eager)

    def begin(self) -> None:
        """Put the first events on the line: who comes and goes, and the server's first orders."""
        windows = self.devices.population.windows
        if windows is not None:
            for number in absent_at_start(windows, self.task.clients):
                self.server.left(number)
            for when, number, present in changes(windows):
                self.state.line.at(when, Phase.CHANGE, number, present)
        self._want_dispatch()

    def run(self, rounds: int, pause: int | None = None) -> None:
        """Until the server has taken `rounds` steps, or `pause` steps if that is sooner; then between two events."""
        line, server = self.state.line, self.server.state
        handlers = {phase: getattr(self, f"_{phase.name.lower()}") for phase in Phase}
        until = rounds if pause is None else min(rounds, pause)
        while server.version < until:
            if not line.heap:
                raise StalledError(
                    f"nothing can happen after step {server.version} of {rounds} at {line.now:g} virtual "
                    f"seconds: no client is at work and none will come back"
                )
            _, phase, client, _, what = line.pop()
            handlers[phase](client, what)

    def restore(self, state: SimState, clients: Mapping[int, ClientState]) -> None:
        """Go on from here instead of beginning; sessions under way are solved, or announced, again."""
        self.state, counted_before = state, Tally()
        for number, own in clients.items():
            client = self._client(number)
            client.state = own
            if own.running is not None and not isinstance(self.kit.behaviour, Interruptible):
                sure = self._will_be_sent(client, own.running)
                self.solves.promise(client, own.running, counted_before, sure)
            if own.outbox is not None:
                self.solves.promise(client, own.outbox, counted_before, sure=False)

    # ------------------------------------------------------------ phase by phase

    def _change(self, number: int, present: bool) -> None:
        if present:
            self.server.joined(number)
            self.state.broadcasts.back_s[number] = self.now
            self._look(number)
            self._want_dispatch()
        else:
            if number in self.clients:
                self._leave(self.clients[number])
            self._take_steps(self.server.left(number))

    def _computed(self, number: int, session_number: int) -> None:
        client = self.clients[number]
        session = client.state.running
        if session is None or session.number != session_number:
            return  # it was lost meanwhile
        self._tell(Watcher.trained, number, session, client.state.times, self.now)
        if self.devices.drops(number, session_number):
            self._drop(client, session)
        else:
            self._replace_stored(client)
            if client.finish():
                self._upload(client)
        self._look(number)

    def _uplink(self, number: int, update: Update) -> None:
        client = self.clients[number]
        session = client.state.upload
        if session is None or session.number != update.session:
            return  # its client left while it was under way
        self.state.tally.bytes_up += update.size_bytes
        self._tell(Watcher.sent_up, number, update)
        receipt = self.server.receive(update, self.now)
        another = client.acknowledged(receipt)
        if receipt.accepted:
            self.versions.release(session.version)
        else:
            self._lose(client, session, "refused")
        self._take_steps(receipt.steps)
        if another:
            self._upload(client)
        self._look(number)

    def _wake(self, _: int, when: float) -> None:
        if self.server.state.wake_at == when:
            self._take_steps(self.server.woke(self.now))

    def _dispatch(self, *_: Any) -> None:
        self.state.dispatch_at = -1.0
        waking = self.server.state.wake_at
        messages = self.server.dispatch(self.now)
        self.solves.announce_stored(self._client(m.client) for m in messages if isinstance(m, Ask))
        for message in messages:
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
        self._tell(Watcher.dispatched, self)

    def _downlink(self, number: int, delivery: Delivery) -> None:
        if number in self.server.state.absent:
            self._discard(delivery)
            return
        client = self._client(number)
        self._discard(client.take())
        client.deliver(delivery.version, delivery.round)
        self._look(number)

    def _start(self, number: int, _: Any) -> None:
        client = self._client(number)
        held_up = self.devices.serial and not self.kit.polled and client.state.upload is not None
        if number in self.server.state.absent or held_up or not client.ready():
            return
        delivery = self.state.broadcasts.take(client, self.now, self.devices, self.versions)
        if delivery is not None:
            self.state.idle.discard(number)
            self._begin(client, delivery)
        elif not self.on_demand:
            self.state.idle.add(number)
            arrival = self.state.broadcasts.next_arrival_s(number, self.now, self.devices)
            if arrival is not None:
                self.state.line.at(arrival, Phase.START, number)

    # ------------------------------------------------------------ what the server ordered

    def _send(self, message: Deliver) -> None:
        number, delay = message.client, 0.0
        what = Delivery(message.version, message.round)
        self.versions.hold(message.version)
        if not self.charged:
            parcel = self.server.retrieve(number, message.version, message.round)
            self._sent_down(number, parcel)
            delay = self.devices.download_s(number, parcel.size_bytes)
        self.state.line.at(self.now + delay, Phase.DOWNLINK, number, what)

    def _broadcast(self, message: Announce) -> None:
        size = 0
        if not self.charged:
            parcel = self.server.retrieve(0, message.version, message.round)
            size = parcel.size_bytes
            self._sent_down(None, parcel, self.task.clients - len(self.server.state.absent))
        entry = Announced(self.now, Delivery(message.version, message.round), size)
        self.state.broadcasts.add(entry, self.versions, self.devices)
        for number in self.state.idle:
            when = self.state.broadcasts.reaches_s(entry, number, self.devices)
            self.state.line.at(when, Phase.START, number)

    def _ask(self, message: Ask) -> None:
        client = self._client(message.client)
        if client.polled():
            self._upload(client)
        elif client.state.running is not None:
            self.solves.announce(client, client.state.running)

    def _stop(self, message: Stop) -> None:
        number, client = message.client, self._client(message.client)
        running = client.state.running
        if running is not None:
            self._tell(Watcher.trained, number, running, client.state.times, self.now)
        if running is None or self.devices.drops(number, running.number):
            self._drop(client, running)
            return
        session = client.interrupt(self.now)
        delta = self._upload(client)
        if self.kit.averaging is not None and is_finite(delta):
            parcel = self.server.retrieve(number, message.version, message.version)
            model = client.averaged(session, delta, self.versions[message.version])
            self._sent_down(number, parcel)
            begins = self.now + self.devices.download_s(number, parcel.size_bytes)
            self._run_until_done(client, client.go_on(model, session), begins)

    # ------------------------------------------------------------ sessions

    def _begin(self, client: Client, delivery: Delivery) -> None:
        """Take the model out of the receive buffer and train; the session now holds the version."""
        shared, model = self.kit.down.shared, self.versions[delivery.version]
        parcel = self.server.retrieve(client.number, delivery.version, delivery.round)
        session = client.begin(parcel, model if shared else None)
        delay = 0.0
        if self.charged or delivery.missed:
            self._sent_down(client.number, parcel)
            delay = self.devices.download_s(client.number, parcel.size_bytes)
        if not shared:
            self._tell(Watcher.lossy, "down", model, session.start)
        self._run_until_done(client, session, self.now + delay)

    def _run_until_done(self, client: Client, session: Session, begins: float) -> None:
        number = client.number
        ends = begins + self.devices.compute_s(number, session.number, session.steps)
        client.state.times = Times(self.now, begins, ends)
        self.state.tally.sessions += 1
        self._tell(Watcher.began, number, session, self.now)
        if isinstance(self.kit.behaviour, Interruptible):
            return  # it works until it is stopped
        self.state.line.at(ends, Phase.COMPUTED, number, session.number)
        self.solves.promise(client, session, self.state.tally, self._will_be_sent(client, session))

    def _upload(self, client: Client) -> Vector:
        """Solve what lies in the send buffer, encode it and put it on its way."""
        session = client.state.outbox
        assert session is not None
        delta = self.solves.result(client, session, self.state.tally)
        update = client.encode(delta)
        until = self.now + self.devices.upload_s(client.number, update.size_bytes)
        self.state.tally.uploads += 1
        self._tell(Watcher.uploading, client.number, session, self.now, until)
        if not self.kit.exact and "update" in update.frames:
            self._tell(Watcher.lossy, "up", delta, self.server.used(update))
        self.state.line.at(until, Phase.UPLINK, client.number, update)
        return delta

    def _drop(self, client: Client, session: Session | None) -> None:
        """A session fails, or is expected and there is none; who trains all the time starts again by itself."""
        if session is not None:
            client.state.running = None
            self._lose(client, session)
        if not isinstance(self.kit.behaviour, Continuous):
            self._take_steps(self.server.lost(client.number))

    def _leave(self, client: Client) -> None:
        """A client goes away and what it was doing comes to nothing."""
        running, times = client.state.running, client.state.times
        if running is not None:
            self._tell(Watcher.trained, client.number, running, times, self.now)
        for session in client.leave():
            self._lose(client, session)
        if self.on_demand:
            self._discard(client.take())

    def _lose(self, client: Client, session: Session, fate: str = "dropped") -> None:
        """A session came to nothing; who trains all the time starts over from the same model."""
        if fate == "dropped":
            self.state.tally.dropped += 1
            self.solves.forget(client, session)
        self._tell(Watcher.ended, client.number, session, fate)
        if not client.start_over(session):
            self.versions.release(session.version)

    def _replace_stored(self, client: Client) -> None:
        """A newer result overwrites an older one that was never asked for."""
        older = client.state.outbox
        if older is not None:
            self.state.tally.overwritten += 1
            self.solves.forget(client, older)
            self._tell(Watcher.ended, client.number, older, "overwritten")
            self.versions.release(older.version)

    def _will_be_sent(self, client: Client, session: Session) -> bool:
        asked = client.state.wanted or not self.kit.polled
        return asked and not self.devices.drops(client.number, session.number)

    # ------------------------------------------------------------ small print

    @property
    def now(self) -> float:
        return self.state.line.now

    @property
    def versions(self) -> Versions:
        return self.server.state.versions

    def _discard(self, delivery: Delivery | None) -> None:
        if delivery is not None:
            self.versions.release(delivery.version)

    def _client(self, number: int) -> Client:
        client = self.clients.get(number)
        if client is None:
            step_s = self.devices.expected_step_s(number)
            client = Client(self.kit, number, self.task.samples(number), step_s)
            self.clients[number] = client
        return client

    def _look(self, number: int) -> None:
        """See in the last phase of this instant whether this client can begin a session."""
        known = self.clients.get(number)
        if not self.on_demand or (known is not None and known.state.inbox is not None):
            self.state.line.at(self.now, Phase.START, number)

    def _want_dispatch(self) -> None:
        if self.state.dispatch_at != self.now:
            self.state.dispatch_at = self.now
            self.state.line.at(self.now, Phase.DISPATCH)

    def _take_steps(self, steps: tuple[Step, ...]) -> None:
        """Something happened to the server, and perhaps these steps; now it may have something to send."""
        for step in steps:
            self._tell(Watcher.stepped, step, self.now, self.state.tally)
        self._want_dispatch()

    def _sent_down(self, number: int | None, parcel: Parcel, copies: int = 1) -> None:
        self.state.tally.bytes_down += copies * parcel.size_bytes
        self._tell(Watcher.sent_down, number, parcel, copies)

    def _tell(self, what: Callable[Concatenate[Any, P], None], *about: P.args, **more: P.kwargs) -> None:
        for hook in self._told[what.__name__]:
            hook(*about, **more)
