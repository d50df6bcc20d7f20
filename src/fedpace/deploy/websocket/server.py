"""The server's side: listens, lets clients in, and joins connections to links."""

from __future__ import annotations

import asyncio
import http
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from websockets.asyncio.server import Server as Listener
from websockets.asyncio.server import ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request as HttpRequest
from websockets.http11 import Response

from fedpace.deploy.accepting import stop_accepting
from fedpace.deploy.identity.enrolment import Identities
from fedpace.deploy.identity.peers import PeerCertificate, peer_of
from fedpace.deploy.transport import Buffer, Presence, TransportEvent
from fedpace.deploy.websocket.addresses import PATH, require_loopback
from fedpace.deploy.websocket.chunks import ViolationError
from fedpace.deploy.websocket.conversation import Channel, Conversation, FarewellError
from fedpace.deploy.websocket.events import EventQueue
from fedpace.deploy.websocket.gate import Gate
from fedpace.deploy.websocket.guard import GuardedServerConnection, guarded_server, quiet_logger
from fedpace.deploy.websocket.limits import TransportLimits
from fedpace.deploy.websocket.link import random_id
from fedpace.deploy.websocket.seats import REPLACED, Seat, Seats
from fedpace.deploy.websocket.spool import Spool
from fedpace.deploy.websocket.wire import HelloFrame, WelcomeFrame, greeting_bytes
from fedpace.errors import FrameError, RemoteError, StorageError, require_count

LOG = logging.getLogger("fedpace.deploy")
LOOK_S = 0.5  # how often revocations and silent peers are looked for: effective within a second


class WebsocketServer:
    """`ServerTransport` over WebSocket connections that clients open.

    A link outlives its connections: a client that comes back within `resume_seconds` goes on where it was, and the
    driver hears nothing of the cut. `Disconnected` means that messages under way are lost.
    """

    def __init__(
        self,
        clients: int,
        *,
        identities: Identities | None,
        spool_folder: Path | None = None,
        limits: TransportLimits | None = None,
        alarm: Callable[[str], None] = LOG.warning,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        new_id: Callable[[], bytes] = random_id,
    ) -> None:
        """Without identities, clients state their number, on this machine only."""
        require_count(clients, "clients")
        self._limits, self._identities = limits or TransportLimits(), identities
        self._clock, self._wall_clock, self._alarm = clock, wall_clock, alarm
        revocations = identities.revocations(alarm) if identities is not None else None
        self._gate = Gate(clients, self._limits, revocations, alarm)
        self.rejected: Mapping[str, int] = self._gate.rejected
        spool = Spool(self._limits, spool_folder, self._space_freed)
        self._events = EventQueue()
        self._seats = Seats(self._gate, self._limits, spool, new_id, self._events.put)
        self._listener: Listener | None = None
        self._housekeeper: asyncio.Task[None] | None = None
        self._closing = False

    @property
    def address(self) -> tuple[str, int]:
        """Host and port on which it listens."""
        assert self._listener is not None
        host, port = next(iter(self._listener.sockets)).getsockname()[:2]
        return host, port

    async def start(self, host: str, port: int) -> None:
        """Listen; ConfigError for an address of this machine that others reach, if there are no identities."""
        context = None
        if self._identities is None:
            require_loopback(host)
        else:
            pending, seconds = self._limits.pending_handshakes, self._limits.opening_seconds
            context = self._identities.context(self._count, pending, seconds)
        self._listener = await serve(
            self._converse,
            host,
            port,
            ssl=context,
            process_request=self._process_request,
            create_connection=guarded_server(self._limits.unread_frames, self._count),
            compression=None,
            ping_interval=None,
            max_size=self._limits.frame_bytes,
            max_queue=4,
            open_timeout=self._limits.opening_seconds,
            close_timeout=self._limits.closing_seconds,
            server_header=None,
            logger=quiet_logger(LOG),
            backlog=1024,
        )
        self._housekeeper = self._events.watch(self._keep_house())

    async def next(self) -> TransportEvent:
        return await self._events.get()

    def send(self, client: int, message: Sequence[Buffer]) -> None:
        seat = self._seats.get(client)
        if seat is None:
            return
        try:
            seat.link.put(message)
        except ViolationError as error:
            self._count(error.reason)
            self._seats.forget(client, str(error))
        if seat.conversation is not None:
            seat.conversation.wake()

    def disconnect(self, client: int, reason: str) -> None:
        self._seats.dismiss(client, reason)

    def lift_suspension(self, client: int) -> None:
        """Let a suspended client in again."""
        self._gate.lift(client)

    def presences(self) -> dict[int, Presence]:
        """Clients with a link, and those that are kept out."""
        now = self._clock()
        return self._seats.presences(now) | {
            client: Presence(is_suspended=True) for client in self._gate.suspended(now)
        }

    async def close(self) -> None:
        """Stop listening, send what is queued, say goodbye; at most `closing_seconds`."""
        if self._listener is None:
            return
        self._closing = True
        await stop_accepting(self._listener.sockets)
        self._listener.close(close_connections=False)
        for seat in self._seats:
            self._seats.dismiss(seat.link.client, "the server ends")
        await self._listener.wait_closed()
        if self._housekeeper is not None:
            self._housekeeper.cancel()

    def housekeep(self) -> None:
        """What is due by the clock."""
        if self._gate.revocations is not None:
            self._gate.revocations.refresh()
        self._seats.housekeep(self._clock(), self._wall_clock())

    async def _keep_house(self) -> None:
        while True:
            await asyncio.sleep(min(LOOK_S, self._limits.heartbeat_s / 4))
            self.housekeep()

    def _count(self, reason: str) -> None:
        self._gate.rejected[reason] += 1

    def _space_freed(self) -> None:
        self._seats.admit_waiting()

    def _process_request(self, connection: ServerConnection, asked: HttpRequest) -> Response | None:
        """The first look, before the connection becomes a WebSocket: None lets it pass."""
        if asked.path != PATH:
            return self._refuse_http(http.HTTPStatus.NOT_FOUND, "path", "there is nothing here")
        try:
            certificate = self._certificate(connection)
            if certificate is not None:
                self._gate.check(certificate, self._wall_clock())
                self._gate.admit(certificate.client, self._clock())
        except ViolationError as error:
            return self._refuse_http(http.HTTPStatus.FORBIDDEN, error.reason, str(error))
        return None

    def _refuse_http(self, status: http.HTTPStatus, reason: str, text: str) -> Response:
        self._count(reason)
        body = f"{text}\n".encode()
        headers = Headers(
            {"Content-Length": str(len(body)), "Content-Type": "text/plain", "Connection": "close"}
        )
        return Response(status.value, status.phrase, headers, body)

    def _certificate(self, connection: ServerConnection) -> PeerCertificate | None:
        if self._identities is None:
            return None
        try:
            return peer_of(connection.transport.get_extra_info("ssl_object"))
        except RemoteError as error:
            raise ViolationError("no client", str(error)) from None

    async def _converse(self, connection: ServerConnection) -> None:
        """All of one connection; nothing that a peer does raises out of it."""
        assert isinstance(connection, GuardedServerConnection)
        channel = Channel(connection, self._limits, self._clock, sealed=self._identities is None)
        try:
            hello = await self._hello(channel)
            await self._serve(channel, hello, self._certificate(connection))
        except ViolationError as error:
            self._count(error.reason)
            await channel.farewell(str(error))

    async def _hello(self, channel: Channel) -> HelloFrame:
        try:
            async with asyncio.timeout(self._limits.opening_seconds):
                frame = await channel.receive()
        except FrameError as error:
            raise ViolationError("frame", str(error)) from None
        except (ConnectionClosed, TimeoutError) as error:
            channel.judge(error if isinstance(error, ConnectionClosed) else None)
            raise ViolationError("no hello", "the first frame did not come") from None
        if not isinstance(frame, HelloFrame):
            raise ViolationError("frame", "the first frame must be a hello")
        return frame

    async def _serve(self, channel: Channel, hello: HelloFrame, certificate: PeerCertificate | None) -> None:
        if certificate is not None and hello.client != certificate.client:
            raise ViolationError(
                "number", f"the certificate of client {certificate.client} says {hello.client}"
            )
        if self._closing:  # its hello came after everyone was dismissed: nobody would end it
            raise ViolationError("closing", "the server ends")
        self._gate.admit(hello.client, self._clock())
        seat = self._sit(hello, certificate)
        seat.conversation = conversation = Conversation(channel, seat.link, self._seats.deliver)
        try:
            ended = await self._run(conversation)
            if ended is not None and seat.conversation is conversation:
                self._seats.forget(hello.client, ended)
        finally:
            self._seats.leave(seat, conversation, self._clock())

    def _sit(self, hello: HelloFrame, certificate: PeerCertificate | None) -> Seat:
        try:
            return self._seats.sit(hello, certificate, self._clock())
        except ViolationError as error:
            if error.reason == "position":
                self._seats.forget(hello.client, str(error))
            raise

    async def _run(self, conversation: Conversation) -> str | None:
        """Why the link has ended; None if only the connection has."""
        try:
            await self._welcome(conversation)
            await conversation.run()
        except FarewellError as error:
            return f"it left: {error}"
        except StorageError as error:
            self._count("storage")
            self._alarm(str(error))
            return str(error)
        except ViolationError as error:
            return await self._refuse(conversation.channel, error)
        return None

    async def _welcome(self, conversation: Conversation) -> None:
        link = conversation.link
        welcome = WelcomeFrame(link.client, link.mine, link.yours, link.receiving.place)
        try:
            await conversation.channel.send(greeting_bytes(welcome))
        except ConnectionClosed as loss:
            conversation.channel.judge(loss)

    async def _refuse(self, channel: Channel, error: ViolationError) -> str | None:
        if error.reason == REPLACED:
            return None
        self._count(error.reason)
        await channel.farewell(str(error))
        return str(error)
