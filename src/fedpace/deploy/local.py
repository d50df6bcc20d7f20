"""A transport within one process: the wiring of tests and of notebooks.

It copies every message once, as a network would, so that neither end can hold on to the other's memory.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from fedpace.deploy.transport import Arrived, Buffer, Connected, Disconnected, TransportEvent


class LocalNetwork:
    """One server at a time and its clients. Made, and used, inside one event loop."""

    def __init__(self) -> None:
        self.clients: dict[int, LocalClient] = {}  # that have a connection
        self.opened = asyncio.Event()
        self.server = self.listen()

    def listen(self) -> LocalServer:
        """A new server in place of the one before; clients connect to it by themselves."""
        for number in list(self.clients):
            self.cut(number, "the server is another one")
        self.server = LocalServer(self)
        self.opened.set()
        return self.server

    def client(self, number: int) -> LocalClient:
        """A connection of this client; an older one of the same number ends."""
        if (older := self.clients.get(number)) is not None:
            older.closed = True
            self.cut(number, "a newer connection of this client")
        client = LocalClient(self, number)
        client.connect()
        return client

    def disconnected(self, number: int) -> Callable[[], None]:
        """Break a connection until the function that this returns is called."""
        client = self.clients[number]
        client.free.clear()
        self.cut(number)
        return client.free.set

    def cut(self, number: int, reason: str = "cut") -> None:
        """Break a connection: both ends are told, what was queued before is still delivered."""
        client = self.clients.pop(number, None)
        if client is not None:
            client.events.put_nowait(Disconnected(number, reason))
            self.server.events.put_nowait(Disconnected(number, reason))


class LocalServer:
    def __init__(self, network: LocalNetwork) -> None:
        self._network = network
        self.events: asyncio.Queue[TransportEvent] = asyncio.Queue()
        self.rejected: Mapping[str, int] = Counter()

    async def next(self) -> TransportEvent:
        return await self.events.get()

    def send(self, client: int, message: Sequence[Buffer]) -> None:
        if (end := self._network.clients.get(client)) is not None:
            end.events.put_nowait(Arrived(client, b"".join(message)))

    def disconnect(self, client: int, reason: str) -> None:
        self._network.cut(client, reason)

    async def close(self) -> None:
        self._network.opened.clear()
        for number in list(self._network.clients):
            self._network.cut(number, "the server closed")


class LocalClient:
    """Connects again whenever its connection breaks, once there is a server."""

    def __init__(self, network: LocalNetwork, number: int) -> None:
        self._network, self._number = network, number
        self.events: asyncio.Queue[TransportEvent] = asyncio.Queue()
        self.closed = self._lost = False
        self.free = asyncio.Event()  # set: it may connect
        self.free.set()

    def connect(self) -> None:
        if self._network.opened.is_set():
            self._lost = False
            self._network.clients[self._number] = self
            self.events.put_nowait(Connected(self._number))
            self._network.server.events.put_nowait(Connected(self._number))
        else:
            self._lost = True

    async def next(self) -> TransportEvent:
        if self._lost and not self.closed:
            await self.free.wait()
            await self._network.opened.wait()
            self.connect()
        event = await self.events.get()
        self._lost = isinstance(event, Disconnected)
        return event

    def send(self, message: Sequence[Buffer]) -> None:
        if self._network.clients.get(self._number) is self:
            self._network.server.events.put_nowait(Arrived(self._number, b"".join(message)))

    async def close(self) -> None:
        self.closed = True
        if self._network.clients.get(self._number) is self:
            self._network.cut(self._number, "the client closed")
