"""The client's side: one link to the server, over one connection after another."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from websockets.exceptions import InvalidStatus, WebSocketException

from fedpace.deploy.identity.peers import LARGEST_CLIENT
from fedpace.deploy.transport import Arrived, Buffer, Connected, Disconnected, TransportEvent
from fedpace.deploy.websocket.addresses import require_loopback, uri
from fedpace.deploy.websocket.chunks import ViolationError
from fedpace.deploy.websocket.conversation import Channel, Conversation, FarewellError
from fedpace.deploy.websocket.events import EventQueue
from fedpace.deploy.websocket.guard import (
    ConnectOnce,
    GuardedClientConnection,
    guarded_client,
    quiet_logger,
)
from fedpace.deploy.websocket.limits import TransportLimits
from fedpace.deploy.websocket.link import Link, random_id
from fedpace.deploy.websocket.patience import Backoff
from fedpace.deploy.websocket.spool import MessageBody, Spool
from fedpace.deploy.websocket.wire import (
    ByeFrame,
    HelloFrame,
    WelcomeFrame,
    greeting_bytes,
)
from fedpace.errors import FedpaceError, require_count

LOG = logging.getLogger("fedpace.deploy")
LOOK_S = 0.5


class WebsocketClient:
    """`ClientTransport`: connects outwards, and again for ever.

    `Connected` and `Disconnected` tell of the link, not of single connections: a cut that ends in time is not seen.
    """

    def __init__(
        self,
        client: int,
        host: str,
        port: int,
        *,
        context: ssl.SSLContext | None,
        rng: np.random.Generator,
        spool_folder: Path | None = None,
        limits: TransportLimits | None = None,
        backoff: Callable[[np.random.Generator], Backoff] = Backoff,
        clock: Callable[[], float] = time.monotonic,
        new_id: Callable[[], bytes] = random_id,
    ) -> None:
        """Without a TLS context it states its number, to a server on this machine only."""
        require_count(client, "client", low=0, high=LARGEST_CLIENT)
        if context is None:
            require_loopback(host)
        self._client, self._context = client, context
        self._uri = uri(host, port, secure=context is not None)
        self._limits, self._clock, self._new_id = limits or TransportLimits(), clock, new_id
        self._backoff = backoff(rng)
        self._spool = Spool(self._limits, spool_folder, self._space_freed)
        self._events = EventQueue()
        self._link = self._new_link()
        self._conversation: Conversation | None = None
        self._away_since = clock()
        self._closing = False
        self._tasks: list[asyncio.Task[None]] = []
        self.trouble = ""  # why it is not connected, in words

    def start(self) -> None:
        """Begin to connect."""
        self._tasks = [self._events.watch(work) for work in (self._connect_for_ever(), self._keep_house())]

    async def next(self) -> TransportEvent:
        return await self._events.get()

    def send(self, message: Sequence[Buffer]) -> None:
        if not self._link.is_known:
            return
        try:
            self._link.put(message)
        except ViolationError as error:
            self._forget(str(error))
        if self._conversation is not None:
            self._conversation.wake()

    async def close(self) -> None:
        """Send what is queued, say goodbye; at most `closing_seconds`."""
        self._closing = True
        if self._conversation is not None:
            self._conversation.leave("the client ends", self._limits.closing_seconds)
            await asyncio.wait(self._tasks[:1])
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def housekeep(self) -> None:
        """What is due by the clock: heartbeats, and an end to waiting for a server that stays away."""
        now = self._clock()
        if self._conversation is not None:
            self._conversation.housekeep(now)
        elif now - self._away_since > self._limits.resume_seconds:
            self._forget(f"no connection for more than {self._limits.resume_seconds:g} s")

    async def _keep_house(self) -> None:
        while True:
            await asyncio.sleep(min(LOOK_S, self._limits.heartbeat_s / 4))
            self.housekeep()

    async def _connect_for_ever(self) -> None:
        while not self._closing:
            began = self._clock()
            try:
                await self._connect_once()
            except (OSError, EOFError, WebSocketException, FedpaceError, FarewellError) as error:
                self._note(error)
            if self._clock() - began >= self._limits.heartbeat_s:
                self._backoff.succeeded()
            if not self._closing:
                await asyncio.sleep(self._backoff.failed())

    async def _connect_once(self) -> None:
        connecting = ConnectOnce(
            self._uri,
            ssl=self._context,
            create_connection=guarded_client(self._limits.unread_frames),
            compression=None,
            ping_interval=None,
            proxy=None,
            max_size=self._limits.frame_bytes,
            max_queue=4,
            logger=quiet_logger(LOG),
            open_timeout=self._limits.opening_seconds,
            close_timeout=self._limits.closing_seconds,
        )
        async with connecting as connection:
            assert isinstance(connection, GuardedClientConnection)
            channel = Channel(connection, self._limits, self._clock, sealed=self._context is None)
            await self._converse(channel)

    async def _converse(self, channel: Channel) -> None:
        self._welcomed(await self._greet(channel))
        self._conversation = conversation = Conversation(channel, self._link, self._deliver)
        try:
            await conversation.run()
        except (FarewellError, FedpaceError) as error:
            self._forget(str(error))
            raise
        finally:
            self._conversation, self._away_since = None, self._clock()

    async def _greet(self, channel: Channel) -> WelcomeFrame:
        link = self._link
        hello = HelloFrame(self._client, link.mine, link.yours, link.receiving.place)
        async with asyncio.timeout(self._limits.opening_seconds):
            await channel.send(greeting_bytes(hello))
            answer = await channel.receive()
        if isinstance(answer, ByeFrame):
            raise FarewellError(answer.reason)
        if not isinstance(answer, WelcomeFrame) or (answer.client, answer.yours) != (self._client, link.mine):
            raise ViolationError("frame", "the server's first frame is not a welcome")
        return answer

    def _welcomed(self, welcome: WelcomeFrame) -> None:
        """Go on with the link if the server knows it; begin a new one otherwise."""
        self.trouble = ""
        if self._link.continues_with(welcome):
            self._link.resume(welcome)
            return
        mine = self._link.mine
        self._forget("the server does not remember this link")
        self._link.mine, self._link.yours = mine, welcome.mine
        self._events.put(Connected(self._client))

    def _forget(self, reason: str) -> None:
        """The link has ended; the next one is a new one."""
        old, self._link = self._link, self._new_link()
        old.discard()
        if old.is_known:
            self._events.put(Disconnected(self._client, reason))

    def _new_link(self) -> Link:
        return Link(self._client, self._new_id(), self._limits, self._spool)

    def _deliver(self, link: Link, body: MessageBody) -> None:
        self._events.put(Arrived(self._client, body.whole(), body.release))

    def _space_freed(self) -> None:
        for body in self._link.receiving.admit():
            self._deliver(self._link, body)
        if self._conversation is not None:
            self._conversation.wake()

    def _note(self, error: Exception) -> None:
        """Remember why; a server that refuses says so in words."""
        text = str(error) or type(error).__name__
        if isinstance(error, InvalidStatus):
            text = error.response.body.decode(errors="replace").strip() if error.response.body else text
        if text != self.trouble:
            LOG.info("client %d is not connected: %s", self._client, text)
        self.trouble = text
