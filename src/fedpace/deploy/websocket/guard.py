"""Connections of the library that drop what our frames never are, before it is queued."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, ClassVar

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.connection import Connection
from websockets.asyncio.server import ServerConnection
from websockets.frames import Frame, Opcode

MOST_UNSENT = 8 << 20  # bytes in the write buffer of a peer that makes us answer and does not read
ANSWERED = (101, 403, 404)  # let in, or refused and counted by the gate


def _ignore(reason: str) -> None:
    """Until somebody listens."""


class GuardedConnection(Connection):
    """Counts what is unread, notes every sign of life, and aborts on pings, text, fragments and floods."""

    most_unread: ClassVar[int]

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._unread = 0
        self.heard: Callable[[], None] = lambda: None
        self.refused: Callable[[str], None] = _ignore

    def data_received(self, data: bytes) -> None:
        self.heard()
        super().data_received(data)
        if self._unread > self.most_unread or self.transport.get_write_buffer_size() > MOST_UNSENT:
            self._refuse("flood")

    def process_event(self, event: Any) -> None:
        if not isinstance(event, Frame) or event.opcode is Opcode.CLOSE:
            super().process_event(event)
        elif event.opcode is Opcode.BINARY and event.fin:
            self._unread += 1
            super().process_event(event)
        else:
            self._refuse("control")

    async def receive(self) -> bytes:
        """The next frame; ConnectionClosed at the end."""
        data = await self.recv(decode=False)
        self._unread -= 1
        return data

    def abort(self) -> None:
        """Drop the connection without a word."""
        self.transport.abort()

    def _refuse(self, reason: str) -> None:
        if not self.transport.is_closing():
            self.refused(reason)
            self.transport.abort()


class GuardedServerConnection(GuardedConnection, ServerConnection):
    """... on the server, where connections that never became a WebSocket are counted."""

    count: Callable[[str], None]

    def connection_lost(self, exc: Exception | None) -> None:
        if self.response is None or self.response.status_code not in ANSWERED:
            type(self).count("http")
        super().connection_lost(exc)


class GuardedClientConnection(GuardedConnection, ClientConnection):
    """... on the client."""


def guarded_server(unread_frames: int, count: Callable[[str], None]) -> type[GuardedServerConnection]:
    """The class that the library makes connections of, with its limit."""
    own = {"most_unread": unread_frames, "count": staticmethod(count)}
    return type("LimitedServerConnection", (GuardedServerConnection,), own)


def guarded_client(unread_frames: int) -> type[GuardedClientConnection]:
    """The same for a client."""
    return type("LimitedClientConnection", (GuardedClientConnection,), {"most_unread": unread_frames})


class _PassOn(logging.Handler):
    """Handshakes that fail are the peer's doing and counted elsewhere; other errors of the library are passed on."""

    def __init__(self, log: logging.Logger) -> None:
        super().__init__(logging.ERROR)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        if not str(record.msg).startswith("opening handshake failed"):
            self._log.handle(record)


def quiet_logger(log: logging.Logger) -> logging.Logger:
    """A logger for the library: strangers must not fill the log with tracebacks."""
    logger = logging.Logger("fedpace.deploy.websockets", logging.ERROR)
    logger.addHandler(_PassOn(log))
    return logger


class ConnectOnce(connect):
    """`connect` that follows no redirect: the address in the bundle is the address."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc
