"""A link that is slow on purpose: every byte arrives so much later, and so many per second."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fedpace.deploy.accepting import stop_accepting


class SlowLink:
    """A proxy in front of a server on this machine. `latency_s`: each way."""

    def __init__(self, port: int, latency_s: float, bytes_per_s: float) -> None:
        self._target, self._latency_s, self._bytes_per_s = port, latency_s, bytes_per_s
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._both, "127.0.0.1", 0)

    async def close(self) -> None:
        assert self._server is not None
        await stop_accepting(self._server.sockets)
        self._server.close()

    async def _both(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._target)
        halves = [self._forward(reader, there_writer), self._forward(there_reader, writer)]
        await asyncio.gather(*halves, return_exceptions=True)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """What comes is read at once, and written when it is due."""
        loop, line = asyncio.get_running_loop(), asyncio.Queue[tuple[float, bytes]]()
        delivering = asyncio.ensure_future(self._deliver(line, writer))
        free_s = 0.0  # when the link has carried all before
        while data := await reader.read(1 << 16):
            free_s = max(free_s, loop.time()) + len(data) / self._bytes_per_s
            line.put_nowait((free_s + self._latency_s, data))
        line.put_nowait((0.0, b""))
        await delivering

    async def _deliver(self, line: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            while (due := await line.get())[1]:
                await asyncio.sleep(max(0.0, due[0] - loop.time()))
                writer.write(due[1])
                await writer.drain()
        writer.close()


@asynccontextmanager
async def slow_link(port: int, latency_s: float, bytes_per_s: float) -> AsyncIterator[SlowLink]:
    link = SlowLink(port, latency_s, bytes_per_s)
    await link.start()
    try:
        yield link
    finally:
        await link.close()
