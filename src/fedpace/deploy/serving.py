"""The server's loop: events of the transport become inputs, which are journalled, handled and answered, in this order.

Everything that came while the last batch was written to the disk is the next batch: one flush of the disk serves all
of it. Nothing leaves before the inputs it follows from are safe.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from fedpace.deploy import inputs, messages
from fedpace.deploy.coordinator import Coordinator
from fedpace.deploy.dispatching import Outgoing
from fedpace.deploy.inputs import Input, InputKind
from fedpace.deploy.journal import Journal
from fedpace.deploy.messages import Message, MessageKind
from fedpace.deploy.threads import to_the_end
from fedpace.deploy.transport import Arrived, Buffer, Disconnected, ServerTransport, TransportEvent
from fedpace.errors import RemoteError
from fedpace.link.codecs.dense import encode_dense
from fedpace.record.run.evaluation import EvaluationInterval
from fedpace.server import Step
from fedpace.vector import Vector

MOST_AT_ONCE = 256  # events in a batch
LINGER_S = 5.0  # after the end, for clients that were away
LAST_WORDS_S = 30.0  # for evaluations of the last model
FRESH = {
    "acknowledged": 0,
    "upload": 0,
    "doing": None,
    "stamp": [0, 0],
}  # of a client that comes from another run

Evaluate = Callable[[Vector], Mapping[str, float]]
Told = Callable[[Step, Coordinator], None]


class Serving:
    """One server until its run is over. `evaluate`: how it measures a model, where it has data."""

    def __init__(
        self,
        coordinator: Coordinator,
        transport: ServerTransport,
        journal: Journal,
        *,
        incarnation: int,
        evaluate: Evaluate | None = None,
        by_clients: bool = False,
        every: EvaluationInterval | None = None,
        told: Sequence[Told] = (),
        linger_s: float = LINGER_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.coordinator, self.transport, self.journal = coordinator, transport, journal
        self.evaluate, self.by_clients, self.every, self.told = evaluate, by_clients, every, told
        self.linger_s = linger_s
        self.rejected: Counter[str] = Counter()
        self.stopped: str | None = None
        self._incarnation, self._clock = incarnation, clock
        self._began, self._before = clock(), coordinator.state.now
        self._happened: asyncio.Queue[TransportEvent | Input | None] = asyncio.Queue()
        self._sound = True  # the coordinator never stopped half way
        self._getting: asyncio.Future[TransportEvent | Input | None] | None = None
        self._greeted: set[int] = set()
        self._measuring: set[asyncio.Task[None]] = set()
        self._marks: tuple[int, int, int] | None = None

    @property
    def now(self) -> float:
        """Continues from the last journalled time by the monotonic clock: a wall clock that jumps changes nothing."""
        return max(self.coordinator.state.now, self._before + self._clock() - self._began)

    def stop(self, reason: str) -> None:
        """End soon, between two batches; the same call continues later."""
        self.stopped = reason
        self._happened.put_nowait(None)

    async def run(self) -> None:
        listening = asyncio.ensure_future(self._listen())
        try:
            await self._submit([inputs.started(self.now, self._incarnation)])
            while not self.coordinator.finished and self.stopped is None:
                await self._next_batch(self._wait_s())
            await self._end()
        finally:
            listening.cancel()
            for waiting in (self._getting, *self._measuring):
                if waiting is not None:
                    waiting.cancel()
            await self.transport.close()
            self.journal.close(self.coordinator if self._sound else None)

    async def _listen(self) -> None:
        while True:
            self._happened.put_nowait(await self.transport.next())

    # ------------------------------------------------------------ batches

    def _wait_s(self) -> float | None:
        wake_at = self.coordinator.wake_at
        return None if wake_at is None else max(0.0, wake_at - self.now)

    async def _next_batch(self, wait_s: float | None) -> None:
        events = await self._events(wait_s)
        now = self.now
        happened = [each for event in events if (each := self._input(event, now)) is not None]
        wake_at = self.coordinator.wake_at
        if wake_at is not None and wake_at <= now:
            happened.append(Input(InputKind.WAKE, now))
        if happened:
            await self._submit([*happened, Input(InputKind.DISPATCH, now)])
        for event in events:
            if isinstance(event, Arrived):
                event.release()

    async def _events(self, wait_s: float | None) -> list[TransportEvent | Input | None]:
        """What happened by now; none if nothing does for so long."""
        events: list[TransportEvent | Input | None] = []
        if self._getting is None:
            self._getting = asyncio.ensure_future(self._happened.get())
        done, _ = await asyncio.wait({self._getting}, timeout=wait_s)
        if done:
            events.append(self._getting.result())
            self._getting = None
        while len(events) < MOST_AT_ONCE and not self._happened.empty():
            events.append(self._happened.get_nowait())
        return events

    def _input(self, event: TransportEvent | Input | None, now: float) -> Input | None:
        match event:
            case Input():
                return Input(event.kind, now, event.client, event.body)
            case Disconnected(client):
                known = client in self._greeted
                self._greeted.discard(client)
                return Input(InputKind.AWAY, now, client) if known else None
            case Arrived(client, data):
                return self._message(client, data, now)
        return None

    def _message(self, client: int, data: Buffer, now: float) -> Input | None:
        """A message without sense ends its connection: the client greets again, and what is missing is repeated."""
        try:
            kind, run = messages.peek(data)
            message, data = self._hello(data, run) if kind is MessageKind.HELLO else (self._read(data), data)
            if not 0 <= client < self.coordinator.terms.clients:
                raise RemoteError(f"there are {self.coordinator.terms.clients} clients")
            if kind >= MessageKind.WELCOME:
                raise RemoteError("a client must not send what a server sends")
        except RemoteError as error:
            self.rejected[str(error)] += 1
            self.transport.disconnect(client, str(error))
            return None
        if kind is MessageKind.HELLO:
            self._greeted.add(client)
        elif (
            client not in self._greeted
        ):  # sent before it knew that its connection is a new one: it repeats it
            self.rejected["a message before hello"] += 1
            return None
        return Input(InputKind.MESSAGE, now, client, data, message)

    def _read(self, data: Buffer) -> Message:
        return self.coordinator.envelope.unpack(data)

    def _hello(self, data: Buffer, run: bytes) -> tuple[Message, bytes]:
        """A greeting in this run's envelope; what a client remembers of another run does not count."""
        own = self.coordinator.envelope
        message = messages.greeting(data)
        if run != own.run:
            message = Message(MessageKind.HELLO, {**message.header, **FRESH})
        return message, b"".join(own.pack(message))

    async def _submit(self, happened: list[Input]) -> None:
        """Journal, handle, flush; then send."""
        out, steps = await to_the_end(self._handle, happened)
        for client, message in out:
            self.transport.send(client, self.coordinator.envelope.pack(message))
        for step in steps:
            self._stepped(step)

    def _handle(self, happened: list[Input]) -> tuple[list[Outgoing], list[Step]]:
        out: list[Outgoing] = []
        steps: list[Step] = []
        try:
            for each in happened:
                self.journal.append(each)
                out += self.coordinator.handle(each)
                steps += self.coordinator.steps_taken
        except BaseException:
            self.journal.commit()
            self._sound = False
            raise
        self.journal.commit()
        self.journal.save_if_due(self.coordinator)
        return out, steps

    # ------------------------------------------------------------ steps

    def _stepped(self, step: Step) -> None:
        for tell in self.told:
            tell(step, self.coordinator)
        if self._is_due(step):
            if self.evaluate is not None:
                self._measure(step)
            if self.by_clients:
                self._let_measure(step)

    def _is_due(self, step: Step) -> bool:
        if self.every is None:
            return False
        tally = self.coordinator.state.tally
        marks = self.every.marks(step.version, self.coordinator.state.now, tally.bytes_up + tally.bytes_down)
        due = marks != self._marks or step.version == self.coordinator.terms.rounds
        self._marks = marks
        return due

    def _measure(self, step: Step) -> None:
        measuring = asyncio.ensure_future(self._measured(step))
        self._measuring.add(measuring)
        measuring.add_done_callback(self._measuring.discard)

    async def _measured(self, step: Step) -> None:
        assert self.evaluate is not None
        metrics = await asyncio.to_thread(self.evaluate, step.x)
        finite = {name: float(value) for name, value in metrics.items() if math.isfinite(value)}
        self._happened.put_nowait(inputs.evaluated(self.now, step.version, finite))

    def _let_measure(self, step: Step) -> None:
        frames = {"model": encode_dense(step.x)}
        parts = self.coordinator.envelope.pack(
            Message(MessageKind.EVALUATE, {"version": step.version}, frames)
        )
        for client in sorted(self.coordinator.state.connected):
            self.transport.send(client, parts)

    # ------------------------------------------------------------ the end

    async def _end(self) -> None:
        """Wait for the last model's metrics, say goodbye, and once more to those that come back for it."""
        if not self.coordinator.finished:
            return  # clients connect again until the run continues
        await self._hear_last_words()
        for client in sorted(self._greeted):
            self.transport.send(client, self._goodbye("the run is over"))
        away, until = set(self.coordinator.state.expected.away_until_s), self._clock() + self.linger_s
        while away - self._greeted and (left := until - self._clock()) > 0 and self.stopped is None:
            await self._tell_late_comers(left)

    async def _tell_late_comers(self, wait_s: float) -> None:
        """Nothing is journalled any more: whoever greets is told that the run is over."""
        for event in await self._events(wait_s):
            happened = self._input(event, self.now)
            if happened is not None and happened.kind is InputKind.MESSAGE:
                self.transport.send(happened.client, self._goodbye("the run is over"))
            if isinstance(event, Arrived):
                event.release()

    def _goodbye(self, reason: str) -> list[Buffer]:
        return self.coordinator.envelope.pack(Message(MessageKind.BYE, {"reason": reason}))

    async def _hear_last_words(self) -> None:
        until = self._clock() + LAST_WORDS_S
        while self._lacks_metrics() and (left := until - self._clock()) > 0 and self.stopped is None:
            await self._next_batch(left)

    def _lacks_metrics(self) -> bool:
        s, last = self.coordinator.state, self.coordinator.server.version
        own = self.evaluate is not None and last not in s.metrics
        theirs = self.by_clients and not s.connected <= set(s.client_metrics.get(last, {}))
        return self.every is not None and (own or theirs)
