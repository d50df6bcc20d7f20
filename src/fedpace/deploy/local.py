"""A transport within one process: the wiring of tests and of notebooks.

It copies every message once, as a network would, so that neither end can hold on to the other's memory.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from fedpace.deploy.transport import Arrived, Buffer, Connected, Disconnected, TransportEvent


class LocalNetwork:
    """One server and its clients. Made, and used, inside one event loop."""

    def __init__(self) -> None:
        self.server = LocalServer(self)
        self.clients: dict[int, LocalClient] = {}

    def client(self, number: int) -> LocalClient:
        """A connection of this client; an older one of the same number ends."""
        if number in self.clients:
            self.cut(number, "a newer connection of this client")
        self.clients[number] = client = LocalClient(self, number)
        client.connect()
        return client

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
        self.rejected: Counter[str] = Counter()

    async def next(self) -> TransportEvent:
        return await self.events.get()

    def send(self, client: int, message: Sequence[Buffer]) -> None:
        if (end := self._network.clients.get(client)) is not None:
            end.events.put_nowait(Arrived(client, b"".join(message)))

    def disconnect(self, client: int, reason: str) -> None:
        self._network.cut(client, reason)

    async def close(self) -> None:
        for number in list(self._network.clients):
            self._network.cut(number, "the server closed")


class LocalClient:
    def __init__(self, network: LocalNetwork, number: int) -> None:
        self._network, self._number = network, number
        self.events: asyncio.Queue[TransportEvent] = asyncio.Queue()

    def connect(self) -> None:
        self._network.clients[self._number] = self
        self.events.put_nowait(Connected(self._number))
        self._network.server.events.put_nowait(Connected(self._number))

    async def next(self) -> TransportEvent:
        return await self.events.get()

    def send(self, message: Sequence[Buffer]) -> None:
        if self._network.clients.get(self._number) is self:
            self._network.server.events.put_nowait(Arrived(self._number, b"".join(message)))

    async def close(self) -> None:
        if self._network.clients.get(self._number) is self:
            self._network.cut(self._number, "the client closed")
