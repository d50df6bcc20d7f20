"""A proxy between clients and server that cuts, freezes, slows and damages what it forwards, as told."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from itertools import chain, repeat

from fedpace.deploy.accepting import stop_accepting

UP, DOWN = "up", "down"  # client to server, server to client
Damage = Callable[[str, bytes], Iterable[bytes]]  # (direction, bytes that came) -> what is forwarded instead


def faithful(direction: str, data: bytes) -> Iterable[bytes]:
    return (data,)


class FaultyProxy:
    """Listens on its own port. Faults are set at any time and hold for what comes next."""

    def __init__(self) -> None:
        self.damage: Damage = faithful
        self.pieces = 64 * 1024  # bytes read at once
        self.forwarded = {UP: 0, DOWN: 0}
        self.connections = 0
        self.recorded = bytearray()  # what clients sent, for a replay
        self._cuts = iter(repeat(float("inf")))  # bytes after which the next connections are cut
        self._open: set[asyncio.StreamWriter] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._target: Callable[[], int] = lambda: 0  # the server's port
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def start(self, port: int | Callable[[], int]) -> None:
        self._target = port if callable(port) else lambda: port
        self._server = await asyncio.start_server(self._forward_both, "127.0.0.1", 0)

    def cut_after(self, *sizes: int) -> None:
        """Cut each of the next connections once so many bytes went through it in one direction; later ones live."""
        self._cuts = chain(sizes, repeat(float("inf")))

    def cut(self) -> None:
        """Break every connection now."""
        for writer in list(self._open):
            writer.transport.abort()

    def freeze(self) -> None:
        """Forward nothing until `thaw`; connections stay open."""
        self._flowing.clear()

    def thaw(self) -> None:
        self._flowing.set()

    async def close(self) -> None:
        assert self._server is not None
        await stop_accepting(self._server.sockets)
        self._server.close()
        self.cut()

    async def _forward_both(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with self._opened(writer), contextlib.suppress(OSError):
            back_reader, back_writer = await asyncio.open_connection("127.0.0.1", self._target())
            with self._opened(back_writer):
                await self._until_one_ends(reader, writer, back_reader, back_writer)

    @contextlib.contextmanager
    def _opened(self, writer: asyncio.StreamWriter) -> Iterator[None]:
        self._open.add(writer)
        try:
            yield
        finally:
            self._open.discard(writer)
            writer.transport.abort()

    async def _until_one_ends(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        back_reader: asyncio.StreamReader,
        back_writer: asyncio.StreamWriter,
    ) -> None:
        limit = next(self._cuts)
        halves = (
            self._forward(UP, reader, back_writer, limit),
            self._forward(DOWN, back_reader, writer, limit),
        )
        tasks = [asyncio.ensure_future(half) for half in halves]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _forward(
        self, direction: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limit: float
    ) -> None:
        passed = 0
        with contextlib.suppress(OSError):
            while passed < limit and (data := await reader.read(int(min(self.pieces, limit - passed)))):
                await self._flowing.wait()
                passed += len(data)
                self.forwarded[direction] += len(data)
                if direction == UP:
                    self.recorded += data
                for piece in self.damage(direction, data):
                    writer.write(piece)
                await writer.drain()


@asynccontextmanager
async def faulty(port: int | Callable[[], int]) -> AsyncIterator[FaultyProxy]:
    proxy = FaultyProxy()
    await proxy.start(port)
    try:
        yield proxy
    finally:
        await proxy.close()
