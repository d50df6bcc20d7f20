"""A client's loop: transport, participant and local training in a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from fedpace.compute.protocol import Request
from fedpace.deploy import messages
from fedpace.deploy.local_task import LocalTask
from fedpace.deploy.memory import ClientMemory
from fedpace.deploy.messages import Message, MessageKind
from fedpace.deploy.owner import Owner
from fedpace.deploy.participant import Participant
from fedpace.deploy.reaction import Reaction
from fedpace.deploy.threads import to_the_end
from fedpace.deploy.transport import Arrived, ClientTransport, Connected, Disconnected
from fedpace.deploy.working import add_up, measure, train
from fedpace.errors import RemoteError
from fedpace.untrusted import visible
from fedpace.vector import Vector

LOG = logging.getLogger("fedpace.deploy")  # who, when and how much; never data or weights


class _Trained(NamedTuple):
    session: int
    delta: Vector
    steps: int
    train_s: float


class _Measured(NamedTuple):
    version: int
    metrics: Mapping[str, float]


class _Summed(NamedTuple):
    version: int
    sums: Vector | None


class _GaveUp(NamedTuple):
    after_s: float


@dataclass(slots=True)
class _Training:
    """One local training in a thread, which can be told to stop between two steps."""

    request: Request
    stopped: threading.Event = field(default_factory=threading.Event)
    began_s: float = field(default_factory=time.monotonic)

    def run(self, task: Any) -> _Trained:
        delta, steps = train(task, self.request, self.stopped.is_set)
        return _Trained(self.request.session, delta, steps, time.monotonic() - self.began_s)


class Joining:
    """One client on its machine until the run is over. `data` is where its samples are in the task."""

    def __init__(
        self,
        task: LocalTask,
        transport: ClientTransport,
        *,
        data: int = 0,
        owner: Owner | None = None,
        memory: ClientMemory | None = None,
        give_up_after_s: float | None = None,
    ) -> None:
        self.transport, self.memory = transport, memory
        self.give_up_after_s = give_up_after_s
        owner = Owner() if owner is None else owner
        self.participant = Participant(task, data, owner)
        if memory is not None:
            memory.load(self.participant)
        self._training: _Training | None = None
        self._happened: asyncio.Queue[object] = asyncio.Queue()
        self._threads: set[asyncio.Task[None]] = set()
        self._task_is_free = asyncio.Lock()
        self._took = (0, 0.0)  # session and seconds of the last local training
        self._giving_up: asyncio.TimerHandle | None = None
        self._leaving = self._over = False

    async def run(self) -> str:
        """Take part until the server says that the run is over; why it ended."""
        self._is_alone()
        listening = [asyncio.ensure_future(self._listen()), asyncio.ensure_future(self._look_up())]
        try:
            while True:
                reaction = self._handle(await self._happened.get())
                await self._react(reaction)
                if reaction.error is not None:
                    raise reaction.error
                if reaction.bye is not None:
                    LOG.info("ended: %s", visible(reaction.bye))
                    return reaction.bye
        finally:
            self._has_server()
            self._over = True
            for task in listening:
                task.cancel()
            self._stop()
            await asyncio.gather(*self._threads, return_exceptions=True)
            await self.transport.close()

    def leave(self) -> None:
        """Leave cleanly: the server is told, and waits no longer."""
        self._leaving = True
        self._happened.put_nowait(None)

    async def _listen(self) -> None:
        while True:
            self._happened.put_nowait(await self.transport.next())

    async def _look_up(self) -> None:
        while True:
            await asyncio.sleep(self.participant.owner.ask_every_s)
            self._happened.put_nowait(MessageKind.READY)

    def _handle(self, what: object) -> Reaction:
        if self._leaving:
            return Reaction(send=[Message(MessageKind.LEAVE)], bye="left")
        match what:
            case Connected():
                self._has_server()
                LOG.info("connected")
                return self.participant.connected()
            case Disconnected(_, reason):
                self._is_alone()
                LOG.info("no connection: %s", visible(reason))
                return self.participant.disconnected()
            case _GaveUp(after_s):
                return Reaction(bye=f"no server for {after_s:g} s: the run is over, or cannot be reached")
            case Arrived():
                return self._arrived(what)
            case _Trained(session, delta, steps, train_s):
                self._took = (session, train_s)
                return self.participant.trained(session, delta, steps)
            case _Measured(version, metrics):
                return Reaction(send=[messages.of_metrics(version, self.participant.samples, metrics)])
            case _Summed(version, sums):
                return Reaction(send=[messages.of_sums(version, self.participant.samples, sums)])
            case MessageKind.READY:
                return self.participant.looked_up()
            case Exception():
                raise what
        return Reaction()

    def _arrived(self, event: Arrived) -> Reaction:
        """A message that makes no sense is left out: what it said will be repeated when it is missed."""
        try:
            if messages.peek(event.message)[0] in messages.ANSWERS_TO_HELLO:
                return self.participant.welcome(*messages.welcomed(event.message))
            return self.participant.receive(self.participant.envelope.unpack(event.message))
        except RemoteError:
            return Reaction()
        finally:
            event.release()

    def _is_alone(self) -> None:
        """Without a server from now on."""
        self._has_server()
        if self.give_up_after_s is not None:
            gave_up = _GaveUp(self.give_up_after_s)
            loop = asyncio.get_running_loop()
            self._giving_up = loop.call_later(self.give_up_after_s, self._happened.put_nowait, gave_up)

    def _has_server(self) -> None:
        if self._giving_up is not None:
            self._giving_up.cancel()

    async def _react(self, reaction: Reaction) -> None:
        """Save, send, stop, begin: in this order."""
        if reaction.save and self.memory is not None:
            await to_the_end(self.memory.save, self.participant)
        for message in reaction.send:
            self.transport.send(self.participant.envelope.pack(self._timed(message)))
        if reaction.stop or reaction.train is not None:
            self._stop()
        if reaction.train is not None:
            LOG.info("trains on model %d, %d steps", reaction.train.version, reaction.train.steps)
            self._training = _Training(reaction.train)
            self._in_thread(self._training.run, self.participant.task)
        if reaction.evaluate is not None:
            work = self._sum if reaction.adds_up else self._measure
            self._in_thread(work, *reaction.evaluate, self.participant.memory.client.kept)

    def _timed(self, message: Message) -> Message:
        """An update says how long its training took, where that is known: predictions are made from it."""
        session, train_s = self._took
        if message.kind is not MessageKind.UPDATE or message.header["session"] != session:
            return message
        return replace(message, header={**message.header, "train_s": train_s})

    def _stop(self) -> None:
        if self._training is not None:
            self._training.stopped.set()

    def _measure(self, version: int, x: Vector, statistics: Vector | None, kept: Vector | None) -> _Measured:
        return _Measured(version, measure(self.participant.task, x, statistics, kept))

    def _sum(self, version: int, x: Vector, *_: Vector | None) -> _Summed:
        return _Summed(version, add_up(self.participant.task, x, self.participant.data))

    def _in_thread(self, work: Any, *about: Any) -> None:
        thread = asyncio.ensure_future(self._report(work, *about))
        self._threads.add(thread)
        thread.add_done_callback(self._threads.discard)

    async def _report(self, work: Any, *about: Any) -> None:
        """One at a time: a task has one module, and torch one random generator."""
        try:
            async with self._task_is_free:
                if not self._over:
                    self._happened.put_nowait(await asyncio.to_thread(work, *about))
        except Exception as error:
            self._happened.put_nowait(error)
