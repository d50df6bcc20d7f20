"""One connection at the service of a link: a reader and a writer, until either ends."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from websockets.exceptions import ConnectionClosed

from fedpace.deploy.websocket.chunks import ViolationError
from fedpace.deploy.websocket.guard import GuardedConnection
from fedpace.deploy.websocket.limits import Meter, TransportLimits
from fedpace.deploy.websocket.link import Link
from fedpace.deploy.websocket.patience import Pulse
from fedpace.deploy.websocket.spool import MessageBody
from fedpace.deploy.websocket.wire import AnyFrame, ByeFrame, bye_bytes, parse, seal, unseal
from fedpace.errors import FrameError

Deliver = Callable[[Link, MessageBody], None]
SILENT, LATE = "silent", "late"
TOO_LARGE = 1009  # the library's close code for a message beyond max_size


class FarewellError(Exception):
    """The peer ended the link on purpose."""


class Channel:
    """Frames over a connection: sealed where TLS does not protect them, metered, with a pulse."""

    def __init__(
        self,
        socket: GuardedConnection,
        limits: TransportLimits,
        clock: Callable[[], float],
        *,
        sealed: bool,
    ) -> None:
        self._socket, self._sealed, self._limits, self._clock = socket, sealed, limits, clock
        self._meter = Meter(limits, clock())
        self.pulse = Pulse(limits.heartbeat_s, clock())
        self.refusal: str | None = None  # why the connection was aborted by our own side
        socket.heard, socket.refused = self._heard, self.refuse

    async def send(self, frame: bytes) -> None:
        await self._socket.send(seal(frame) if self._sealed else frame)
        self.pulse.spoke_at = self._clock()

    async def receive(self) -> AnyFrame:
        """The next frame; FrameError if it is none, ConnectionClosed at the end."""
        data = await self._socket.receive()
        wait = self._meter.take(len(data), self._clock())
        if wait > 0:  # the rest stays with the peer: its credit and TCP hold it back
            await asyncio.sleep(wait)
            self._heard()
        return parse(unseal(data) if self._sealed else data)

    def refuse(self, reason: str) -> None:
        """Drop the connection at once."""
        self.refusal = self.refusal or reason
        self._socket.abort()

    async def farewell(self, reason: str) -> None:
        """Say why before it ends, if the peer still listens."""
        with contextlib.suppress(ConnectionClosed, TimeoutError):
            async with asyncio.timeout(self._limits.closing_seconds):
                await self.send(bye_bytes(reason))

    def judge(self, loss: ConnectionClosed | None) -> None:
        """Raise ViolationError if the connection ended because the peer broke a rule that was checked below us."""
        if loss is not None and loss.sent is not None and loss.sent.code == TOO_LARGE:
            raise ViolationError("size", "a frame larger than any chunk")
        if self.refusal not in (None, SILENT, LATE):
            raise ViolationError(str(self.refusal), f"refused: {self.refusal}")

    def _heard(self) -> None:
        self.pulse.heard_at = self._clock()


class Conversation:
    """Runs a link over a channel."""

    def __init__(self, channel: Channel, link: Link, deliver: Deliver) -> None:
        self.channel, self.link, self._deliver = channel, link, deliver
        self._awake = asyncio.Event()
        self._leaving: str | None = None
        self._deadline: asyncio.TimerHandle | None = None

    async def run(self) -> None:
        """Until the connection is lost (returns) or a side is at fault or leaves (raises)."""
        tasks = [asyncio.ensure_future(half) for half in (self._read(), self._write())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            if self._deadline is not None:
                self._deadline.cancel()
        self._raise_worst(results)

    def wake(self) -> None:
        """There may be something to send."""
        self._awake.set()

    def leave(self, reason: str, within_s: float) -> None:
        """Send what is queued, say goodbye, and end; without goodbye if that takes too long."""
        self._leaving = reason
        self.wake()
        self._deadline = asyncio.get_running_loop().call_later(within_s, self.channel.refuse, LATE)

    def housekeep(self, now: float) -> None:
        """Drop a silent peer; break our own silence."""
        if self.channel.pulse.is_dead(now):
            self.channel.refuse(SILENT)
        elif self.channel.pulse.must_speak(now):
            self.link.beat()
            self.wake()

    async def _read(self) -> None:
        while True:
            frame = await self.channel.receive()
            if self.channel.refusal is not None:  # what came before the connection was dropped counts no more
                return
            if isinstance(frame, ByeFrame):
                raise FarewellError(frame.reason)
            for body in self.link.take(frame):
                self._deliver(self.link, body)
            self.wake()

    async def _write(self) -> None:
        while True:
            self._awake.clear()
            while (frame := self.link.next_frame()) is not None:
                await self.channel.send(frame)
            if self._leaving is not None and self.link.sending.is_empty:
                await self.channel.farewell(self._leaving)
                return
            await self._awake.wait()

    def _raise_worst(self, results: list[BaseException | None]) -> None:
        """An error of ours or the peer's; a mere loss of the connection is none, unless we caused it for a reason."""
        for result in results:
            if isinstance(result, Exception) and not isinstance(result, ConnectionClosed):
                raise _as_violation(result)
        for result in results:
            if isinstance(result, ConnectionClosed):
                self.channel.judge(result)
        self.channel.judge(None)


def _as_violation(error: Exception) -> Exception:
    return ViolationError("frame", str(error)) if isinstance(error, FrameError) else error
