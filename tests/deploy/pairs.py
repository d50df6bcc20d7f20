"""Servers and clients over real sockets on this machine, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from fedpace.deploy.transport import Arrived
from fedpace.deploy.websocket.client import WebsocketClient
from fedpace.deploy.websocket.limits import KIB, MIB, TransportLimits
from fedpace.deploy.websocket.patience import Backoff
from fedpace.deploy.websocket.server import WebsocketServer

T = TypeVar("T")
PATIENCE_S = 600  # only a test that fails gets there
SMALL = TransportLimits(
    chunk_bytes=4 * KIB,
    credit_bytes=16 * KIB,
    message_bytes=4 * MIB,
    memory_each=128 * KIB,
    memory_total=256 * KIB,
    spool_above=64 * KIB,
    spool_total=4 * MIB,
    heartbeat_s=3600.0,
    resume_seconds=3600.0,
    joins_a_minute=1000,
    closing_seconds=PATIENCE_S,
    opening_seconds=PATIENCE_S,
)
at_once = partial(Backoff, base=0.001, cap=0.002)


def run(test: Coroutine[Any, Any, T]) -> T:
    """Run it; a test that hangs fails."""

    async def bounded() -> T:
        async with asyncio.timeout(PATIENCE_S):
            return await test

    return asyncio.run(bounded())


class Clock:
    """A clock that is moved by hand."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def quick_client(client: int, port: int, **options: Any) -> WebsocketClient:
    options = {
        "context": None,
        "rng": np.random.default_rng(client),
        "limits": SMALL,
        "backoff": at_once,
    } | options
    return WebsocketClient(client, "127.0.0.1", port, **options)


@asynccontextmanager
async def serving(spool: Path | None = None, **options: Any) -> AsyncIterator[WebsocketServer]:
    options = {"clients": 8, "identities": None, "limits": SMALL, "spool_folder": spool} | options
    server = WebsocketServer(options.pop("clients"), **options)
    await server.start("127.0.0.1", 0)
    try:
        yield server
    finally:
        await server.close()


@asynccontextmanager
async def joining(client: int, port: int, **options: Any) -> AsyncIterator[WebsocketClient]:
    end = quick_client(client, port, **options)
    end.start()
    try:
        yield end
    finally:
        await end.close()


async def message(end: WebsocketServer | WebsocketClient) -> bytes:
    """The next event, which must be a message; released."""
    event = await end.next()
    assert isinstance(event, Arrived), event
    content = bytes(event.message)
    event.release()
    return content


async def messages(end: WebsocketServer | WebsocketClient, count: int) -> Sequence[bytes]:
    return [await message(end) for _ in range(count)]


async def until(condition: Any) -> None:
    """Let the loop run until it holds."""
    while not condition():
        await asyncio.sleep(0.001)


def small(**changes: Any) -> TransportLimits:
    return replace(SMALL, **changes)
