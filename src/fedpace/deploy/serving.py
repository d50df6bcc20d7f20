"""The server's loop: events of the transport become inputs, which are journalled, handled and answered, in this order.

Everything that came while the last batch was written to the disk is the next batch: one flush of the disk serves all
of it. Nothing leaves before the inputs it follows from are safe.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AsyncExitStack

from fedpace.deploy import inputs, messages
from fedpace.deploy.coordinator import Coordinator
from fedpace.deploy.dispatching import Outgoing
from fedpace.deploy.fleet.ledger import Ledger
from fedpace.deploy.inputs import Input, InputKind
from fedpace.deploy.journal import Journal
from fedpace.deploy.measuring import Evaluate, Measuring
from fedpace.deploy.messages import Message, MessageKind
from fedpace.deploy.threads import to_the_end
from fedpace.deploy.transport import Arrived, Buffer, Disconnected, ServerTransport, TransportEvent
from fedpace.errors import RemoteError
from fedpace.record.run.evaluation import EvaluationInterval
from fedpace.server import Step
from fedpace.untrusted import visible

LOG = logging.getLogger("fedpace.deploy")  # who, when and how much; never data or weights
MOST_AT_ONCE = 256  # events in a batch
LINGER_S = 5.0  # after the end, for clients that were away
LAST_WORDS_S = 60.0  # for statistics and evaluations of the last model
FRESH = {
    "acknowledged": 0,
    "upload": 0,
    "origin": 0,
    "doing": None,
    "stamp": [0, 0],
}  # of a client that comes from another run

Told = Callable[[Step, Coordinator], None]
Companion = Callable[["Serving"], AbstractAsyncContextManager[None]]  # lasts as long as the server runs


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
        self.told, self.linger_s = told, linger_s
        self.rejected: Counter[str] = Counter()
        self.ledger = Ledger()
        self.settled = asyncio.Lock()  # free: the coordinator is between two batches, and may be looked at
        self.stopped: str | None = None
        self._incarnation, self._clock = incarnation, clock
        self._began, self._before = clock(), coordinator.state.now
        self._happened: asyncio.Queue[TransportEvent | Input | None] = asyncio.Queue()
        self._sound = True  # the coordinator never stopped half way
        self._flushing = ThreadPoolExecutor(1, "fedpace-journal")
        self._getting: asyncio.Future[TransportEvent | Input | None] | None = None
        self._greeted: set[int] = set()
        self.measuring = Measuring(
            coordinator,
            transport,
            self._happened.put_nowait,
            evaluate=evaluate,
            by_clients=by_clients,
            every=every,
            clock=clock,
        )

    @property
    def now(self) -> float:
        """Continues from the last journalled time by the monotonic clock: a wall clock that jumps changes nothing."""
        return max(self.coordinator.state.now, self._before + self._clock() - self._began)

    @property
    def refused(self) -> dict[str, int]:
        """Connections and messages that were not let in, by reason."""
        return dict(sorted((Counter(self.transport.rejected) + self.rejected).items()))

    def stop(self, reason: str) -> None:
        """End soon, between two batches; the same call continues later."""
        self.stopped = reason
        self._happened.put_nowait(None)

    async def run(self, beside: Sequence[Companion] = ()) -> None:
        listening = asyncio.ensure_future(self._listen())
        try:
            async with AsyncExitStack() as accompanied:
                for companion in beside:
                    await accompanied.enter_async_context(companion(self))
                await self._run()
        finally:
            listening.cancel()
            self.measuring.cancel()
            if self._getting is not None:
                self._getting.cancel()
            await self.transport.close()
            self._flushing.shutdown()
            self.journal.close(self.coordinator if self._sound else None)

    async def _run(self) -> None:
        await self._submit([inputs.started(self.now, self._incarnation)])
        while not self.coordinator.finished and self.stopped is None:
            await self._next_batch(self._wait_s())
        await self._end()

    async def _listen(self) -> None:
        try:
            while True:
                self._happened.put_nowait(await self.transport.next())
        except RemoteError as error:  # a transport that cannot go on
            self.stop(str(error))

    # ------------------------------------------------------------ batches

    def _wait_s(self) -> float | None:
        wake_at = self.coordinator.wake_at
        times = (None if wake_at is None else max(0.0, wake_at - self.now), self.measuring.wait_s)
        return min((time for time in times if time is not None), default=None)

    async def _next_batch(self, wait_s: float | None) -> None:
        events = await self._events(wait_s)
        now = self.now
        happened = [each for event in events if (each := self._input(event, now)) is not None]
        wake_at = self.coordinator.wake_at
        if wake_at is not None and wake_at <= now:
            happened.append(Input(InputKind.WAKE, now))
        if happened:
            await self._submit(inputs.with_dispatches(happened, now))
        for event in events:
            if isinstance(event, Arrived):
                event.release()
        await self._pool()

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
            case Disconnected(client, _, gone):
                self.measuring.disconnected(client)
                LOG.info("client %d is away", client)
                known = client in self._greeted
                self._greeted.discard(client)
                return inputs.away(now, client, gone) if known else None
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
            LOG.warning("client %d is disconnected: %s", client, visible(str(error)))
            self.transport.disconnect(client, str(error))
            return None
        if kind is MessageKind.HELLO:
            self._greeted.add(client)
            LOG.info("client %d greets", client)
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
        """Journal and handle; then send."""
        async with self.settled:
            out, steps = await to_the_end(self._handle, happened)
        self.ledger.enter(happened, out, self.now)
        for client, message in out:
            self.transport.send(client, self.coordinator.envelope.pack(message))
        for step in steps:
            LOG.info("step %d from clients %s", step.version, sorted(set(step.clients)))
            for tell in self.told:
                tell(step, self.coordinator)
            self.measuring.stepped(step)

    def _handle(self, happened: list[Input]) -> tuple[list[Outgoing], list[Step]]:
        """The disk works while the machine does; nothing leaves before both are done."""
        out: list[Outgoing] = []
        steps: list[Step] = []
        for each in happened:
            self.journal.append(each)
        safe = self._flushing.submit(self.journal.commit)
        try:
            for each in happened:
                out += self.coordinator.handle(each)
                steps += self.coordinator.steps_taken
        except BaseException:
            self._sound = False
            raise
        finally:
            safe.result()
        self.journal.save_if_due(self.coordinator)
        return out, steps

    async def _pool(self) -> None:
        """Running statistics that are waited for no longer."""
        for happened, step, is_due in self.measuring.complete(self.now):
            await self._submit([happened])
            if is_due:
                self.measuring.pooled(step)

    # ------------------------------------------------------------ the end

    async def _end(self) -> None:
        """Wait for the last model's metrics, say goodbye, and once more to those that come back for it."""
        if not self.coordinator.finished:
            return  # clients connect again until the run continues
        if self.measuring.missed_last:
            await self._await_clients()
            self.measuring.make_up()
            await self._pool()  # nobody may be here to be asked
        await self._hear_last_words()
        for client in sorted(self._greeted):
            self.transport.send(client, self._goodbye("the run is over"))
        away, until = set(self.coordinator.state.expected.away_until_s), self._clock() + self.linger_s
        while away - self._greeted and (left := until - self._clock()) > 0 and self.stopped is None:
            await self._tell_late_comers(left)

    async def _await_clients(self) -> None:
        """Until those that may come back are here, or have had the time that patience gives them."""
        s, until = self.coordinator.state, self.now + self.coordinator.terms.patience.grace_s
        while self.measuring.asks_clients and (s.expected.away_until_s or not s.connected):
            left = until - self.now
            if left <= 0 or self.stopped is not None:
                return
            await self._next_batch(left)

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
        while self.measuring.lacks_last and (left := until - self._clock()) > 0 and self.stopped is None:
            await self._next_batch(min(left, self.measuring.wait_s or left))
