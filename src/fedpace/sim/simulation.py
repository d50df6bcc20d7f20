"""Server and clients under a virtual clock: a handler per phase of an instant, and one per order of the server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fedpace.client import Client, ClientConfig, ClientState, Delivery, Session
from fedpace.compute.protocol import Engine, Task
from fedpace.errors import RemoteError, StalledError
from fedpace.pace.protocol import OnDemand
from fedpace.server import Broadcast, Interrupt, Parcel, Poll, Send, Server, Step, Update
from fedpace.server.messages import Steps
from fedpace.sim.audience import Audience
from fedpace.sim.availability import absent_at_start, changes
from fedpace.sim.broadcasts import Announced, Taken
from fedpace.sim.garbage import collected_rarely
from fedpace.sim.observer import Observer, Tally
from fedpace.sim.population import Devices
from fedpace.sim.state import SimState
from fedpace.sim.timeline import Phase
from fedpace.sim.training import TrainingPromises
from fedpace.spill import Slab


class Simulation:
    """A driver of the sealed machines: it owns the clock and the bytes, and nothing of the server's state."""

    def __init__(
        self,
        server: Server,
        task: Task,
        devices: Devices,
        engine: Engine,
        *observers: Observer,
        eager: bool = False,
        slab: Slab | None = None,
    ) -> None:
        self.server, self.task, self.devices, self.engine = server, task, devices, engine
        self.audience = Audience(observers)
        self._tell = self.audience.tell
        self.config = ClientConfig.of(server.algorithm, server.model, server.seed, slab)
        self.on_demand = isinstance(self.config.behaviour, OnDemand)
        # whether a session pays for its model when it takes it out, not when it is sent
        self.charged = devices.serial or not self.config.shared
        self.drops = devices.population.drop > 0
        self.clients: dict[int, Client] = {}
        self.state = SimState(idle=set() if self.on_demand else set(range(task.clients)))
        self.training = TrainingPromises(engine, eager, devices.attackers)

    def begin(self) -> None:
        """Put the first events on the timeline: changes of availability, and the server's first orders."""
        windows = self.devices.population.windows
        if windows is not None:
            for number in absent_at_start(windows, self.task.clients):
                self.server.left(number)
            for when, number, present in changes(windows):
                self.state.line.at(when, Phase.CHANGE, number, present)
        self._want_dispatch()

    @collected_rarely()
    def run(self, rounds: int, pause: int | None = None) -> None:
        """Until the server has taken `rounds` steps, or `pause` steps if that is sooner, or an observer stops it.

        It then stands between two events.
        """
        line, server, audience, handlers = self.state.line, self.server, self.audience, self._handlers()
        until = rounds if pause is None else min(rounds, pause)
        if server.version >= until or audience.stop is not None:
            return
        for phase, client, what in line.events():
            handlers[phase](client, what)
            if server.version >= until or audience.stop is not None:
                return
        raise StalledError(
            f"nothing can happen after step {server.version} of {rounds} at {line.now:g} virtual seconds: "
            f"no client is active and none will come back"
        )

    def _handlers(self) -> Sequence[Callable[[int, Any], None]]:
        """In the order of the phases."""
        before = (self._change, self._computed, self._uplink, self._wake)
        return (*before, self._dispatch, self._downlink, self._start)

    def restore(self, state: SimState, clients: Mapping[int, ClientState]) -> None:
        """Resume from here instead of beginning; sessions under way are trained, or announced, again."""
        self.state, counted_before = state, Tally()
        for number, own in clients.items():
            client = self._client(number)
            client.state = own
            if own.running is not None and not self.config.interruptible:
                sure = self._will_be_sent(client, own.running)
                self.training.promise(client, own.running, counted_before, sure)
            if own.outbox is not None:
                self.training.promise(client, own.outbox, counted_before, sure=False)

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
        if self.audience.follows_sessions:
            self._tell(Observer.trained, number, session, client.state.times, self.state.line.now)
        if self.drops and self.devices.drops(number, session_number):
            self._drop(client)
        else:
            if client.state.outbox is not None:
                self._replace_stored(client, client.state.outbox)
            if client.finish():
                self._upload(client, wait=True)
        self._look(number)

    def _uplink(self, number: int, session: int) -> None:
        client = self.clients[number]
        stored, update = client.state.outbox, client.state.upload
        if update is None and stored is not None and stored.number == session:
            update, _ = self._encode(client, stored, Tally())  # it is counted
        if update is None or update.session != session:
            return  # its client left while it was under way
        self.state.tally.bytes_up += update.size_bytes
        self._tell(Observer.sent_up, number, update)
        receipt, steps = self.server.receive(update, self.now)
        another = client.acknowledged(receipt)
        if not receipt.accepted:
            self._lose(client, update.session, update.version, update.round, "refused")
        self._take_steps(steps)
        if another:
            self._upload(client)
        self._look(number, answered=True)

    def _wake(self, _: int, when: float) -> None:
        if self.server.wake_at == when:
            self._take_steps(self.server.woke(self.now))

    def _dispatch(self, *_: Any) -> None:
        self.state.dispatch_at = -1.0
        waking = self.server.wake_at
        orders = self.server.dispatch(self.now)
        self.training.announce_stored(
            self._client(order.client) for order in orders if isinstance(order, Poll)
        )
        carry_out: dict[type, Callable[[Any], None]] = {Send: self._send, Broadcast: self._broadcast}
        carry_out |= {Poll: self._poll, Interrupt: self._interrupt}
        for order in orders:
            carry_out[type(order)](order)
        wake_at = self.server.wake_at
        if wake_at is not None and wake_at != waking:
            self.state.line.at(wake_at, Phase.WAKE, what=wake_at)
        self._tell(Observer.dispatched, self)

    def _downlink(self, number: int, delivery: Delivery) -> None:
        if self.server.is_present(number):
            self._client(number).deliver(delivery.version, delivery.round)
            self._look(number)

    def _start(self, number: int, _: Any) -> None:
        client = self.clients.get(number) or self._client(number)
        held_up = client.state.upload is not None and self.devices.serial and not self.config.polled
        if not self.server.is_present(number) or held_up or not client.ready():
            return
        state, line = self.state, self.state.line
        taken = state.broadcasts.take(client, line.now, self.devices)
        if taken is not None and self._begin(client, taken):
            state.idle.discard(number)
        elif not self.on_demand:
            state.idle.add(number)
            arrival = state.broadcasts.next_arrival_s(number, line.now, self.devices)
            if arrival is not None:
                line.at(arrival, Phase.START, number)

    # ------------------------------------------------------------ what the server ordered

    def _send(self, order: Send) -> None:
        number, delay = order.client, 0.0
        if not self.charged:
            parcel = self.server.retrieve(number, order.version, order.round)
            self._sent_down(number, parcel)
            delay = self.devices.download_s(number, parcel.size_bytes)
        self.state.line.at(self.now + delay, Phase.DOWNLINK, number, Delivery(order.version, order.round))

    def _broadcast(self, order: Broadcast) -> None:
        size = 0
        if self.config.shared:
            parcel = self.server.preview(order.version, order.round)
            size = 0 if self.charged else parcel.size_bytes
            self._sent_down(None, parcel, self.server.present)
        entry = Announced(self.now, Delivery(order.version, order.round), size)
        self.state.broadcasts.add(entry, self.server, self.devices)
        for number in self.state.idle:
            when = self.state.broadcasts.reaches_s(entry, number, self.devices)
            self.state.line.at(when, Phase.START, number)

    def _poll(self, order: Poll) -> None:
        client = self._client(order.client)
        if client.polled():
            self._upload(client)
        elif client.state.running is not None:
            self.training.announce(client, client.state.running)

    def _interrupt(self, order: Interrupt) -> None:
        client = self._client(order.client)
        running = client.state.running
        if running is not None:
            self._tell(Observer.trained, order.client, running, client.state.times, self.now)
        if running is None or self.devices.drops(order.client, running.number):
            self._drop(client)
            return
        client.interrupt(client.steps_done(self.now))
        self._upload(client)
        if client.goes_on():
            parcel = self.server.retrieve(order.client, order.version, order.round)
            self._train(client, parcel, pay=True, brought=self.devices.population.delayed_orders)

    # ------------------------------------------------------------ sessions

    def _begin(self, client: Client, taken: Taken) -> bool:
        """Train from the model out of the receive buffer; False: it was overtaken on its way."""
        delivery, broadcast = taken
        try:
            parcel = self.server.retrieve(client.number, delivery.version, delivery.round)
        except RemoteError:
            if self.config.continuous:
                raise  # a broadcast is held until it has reached all clients
            return False
        counted = broadcast and self.config.shared and not delivery.missed
        session = self._train(client, parcel, pay=self.charged or delivery.missed, counted=counted)
        if not self.config.shared and parcel.model is not None:
            self._tell(Observer.lossy, "down", parcel.model, session.start)
        return True

    def _train(
        self, client: Client, parcel: Parcel, *, pay: bool, counted: bool = False, brought: bool = False
    ) -> Session:
        """Begin a session from this model, after its transfer where it is paid for now; its bytes may be counted.

        `brought`: it came with an order, which took that time.
        """
        session, number, devices = client.begin(parcel), client.number, self.devices
        line, tally, now = self.state.line, self.state.tally, self.state.line.now
        if pay and not counted:
            self._sent_down(number, parcel)
        begins = now + devices.download_s(number, parcel.size_bytes) if pay and not brought else now
        ends = begins + devices.compute_s(number, session.number, session.steps + session.beside)
        client.state.times.set(now, begins, ends)
        tally.sessions += 1
        if self.audience.follows_sessions:
            self._tell(Observer.began, number, session, now)
        if not self.config.interruptible:  # an interruptible client trains until then
            line.at(ends, Phase.COMPUTED, number, session.number)
            sure = self._will_be_sent(client, session)
            if sure or self.training.eager:
                self.training.promise(client, session, tally, sure)
        return session

    def _upload(self, client: Client, wait: bool = False) -> None:
        """Train the session in the send buffer, encode its update and send it; `wait`: until it arrives.

        Where uploads take no time, the updates of a cohort are then made and folded in one after another, and are never
        all in memory.
        """
        session, until = client.state.outbox, self.now
        assert session is not None
        if wait and self.training.can_wait and self.devices.uploads_at_once(client.number):
            self.state.tally.solved += 1
        else:
            _, until = self._encode(client, session, self.state.tally)
        self.state.tally.uploads += 1
        self.state.line.at(until, Phase.UPLINK, client.number, session.number)

    def _encode(self, client: Client, session: Session, tally: Tally) -> tuple[Update, float]:
        """The session's update as bytes, and when it arrives."""
        delta, update = self.training.encoded(client, session, tally)
        until = self.now + self.devices.upload_s(client.number, update.size_bytes)
        self._tell(Observer.uploading, client.number, update, self.now, until)
        if not self.config.exact and "update" in update.frames:
            self._tell(Observer.lossy, "up", delta, self.server.used(update))
        return update, until

    def _drop(self, client: Client) -> None:
        """A session fails, or there is none as expected; a client that trains continuously starts again by itself."""
        session = client.state.running
        if session is not None:
            client.lose()
            self._drop_session(client, session)
        if not self.config.continuous:
            round = None if session is None else session.round
            self._take_steps(self.server.lost(client.number, round))

    def _leave(self, client: Client) -> None:
        """A client leaves; its sessions are dropped."""
        running, times = client.state.running, client.state.times
        if running is not None:
            self._tell(Observer.trained, client.number, running, times, self.now)
        for session in client.leave():
            self._drop_session(client, session)
        if not self.config.continuous:
            client.take()  # the server sends a newer one

    def _drop_session(self, client: Client, session: Session | Update) -> None:
        number = session.number if isinstance(session, Session) else session.session
        self.state.tally.dropped += 1
        self.training.forget(client, number)
        self._lose(client, number, session.version, session.round, "dropped")

    def _lose(self, client: Client, session: int, version: int, round: int, fate: str) -> None:
        """A session came to nothing; a client that trains continuously starts over from the same model."""
        self._tell(Observer.ended, client.number, session, fate)
        client.start_over(version, round)

    def _replace_stored(self, client: Client, older: Session) -> None:
        """A newer result overwrites an older one that was never asked for."""
        self.state.tally.overwritten += 1
        self.training.forget(client, older.number)
        if self.audience.follows_sessions:
            self._tell(Observer.ended, client.number, older.number, "overwritten")

    def _will_be_sent(self, client: Client, session: Session) -> bool:
        return client.is_wanted() and not (self.drops and self.devices.drops(client.number, session.number))

    # ------------------------------------------------------------ small helpers

    @property
    def now(self) -> float:
        return self.state.line.now

    def _client(self, number: int) -> Client:
        client = self.clients.get(number)
        if client is None:
            step_s = self.devices.expected_step_s(number)
            client = Client(self.config, number, self.task.samples(number), step_s)
            self.clients[number] = client
        return client

    def _look(self, number: int, answered: bool = False) -> None:
        """See in the last phase of this instant whether this client can begin a session; its upload may have ended."""
        known = self.clients.get(number) if self.on_demand else None
        if not self.on_demand or (known is not None and known.state.inbox is not None):
            self.state.line.at(self.state.line.now, Phase.START, number)

    def _want_dispatch(self) -> None:
        if self.state.dispatch_at != self.now:
            self.state.dispatch_at = self.now
            self.state.line.at(self.now, Phase.DISPATCH)

    def _take_steps(self, steps: Steps) -> None:
        """Something happened to the server, and perhaps these steps; now it may have something to send."""
        for step in steps:
            if isinstance(step, Step):
                self._tell(Observer.stepped, step, self.now, self.state.tally)
                self.audience.stop_for(self.server.exhausted)
            else:
                for client, session in zip(step.clients, step.sessions, strict=True):
                    self._tell(Observer.ended, client, session, "refused")
        self._want_dispatch()

    def _sent_down(self, number: int | None, parcel: Parcel, copies: int = 1) -> None:
        self.state.tally.bytes_down += copies * parcel.size_bytes
        self._tell(Observer.sent_down, number, parcel, copies)
