"""Connections of the library that drop what our frames never are, before it is queued."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.connection import Connection
from websockets.asyncio.server import ServerConnection
from websockets.frames import Frame, Opcode

MOST_UNSENT = 8 << 20  # bytes in the write buffer of a peer that makes us answer and does not read


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
    """... on the server."""


class GuardedClientConnection(GuardedConnection, ClientConnection):
    """... on the client."""


def guarded_server(unread_frames: int) -> type[GuardedServerConnection]:
    """The class that the library makes connections of, with its limit."""
    return type("LimitedServerConnection", (GuardedServerConnection,), {"most_unread": unread_frames})


def guarded_client(unread_frames: int) -> type[GuardedClientConnection]:
    """The same for a client."""
    return type("LimitedClientConnection", (GuardedClientConnection,), {"most_unread": unread_frames})


class ConnectOnce(connect):
    """`connect` that follows no redirect: the address in the bundle is the address."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc
