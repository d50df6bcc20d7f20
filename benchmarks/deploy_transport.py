"""The built-in transport beside the library that it stands on: python benchmarks/deploy_transport.py

Server and clients in one process over loopback, the raw `websockets` library and the transport in turn, so that a busy
machine slows both. Medians of rounds; a round is one message to every client and one back from each.

    10 kB, 20 clients     milliseconds per message (both ways = 40 messages a round)
    10 MB, both ways      milliseconds per round with one client; above 8 MiB the server spools to disk
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ssl
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve

from fedpace.deploy.identity.bundles import read_bundle
from fedpace.deploy.identity.enrolment import Identities
from fedpace.deploy.transport import Arrived
from fedpace.deploy.websocket.client import WebsocketClient
from fedpace.deploy.websocket.server import WebsocketServer

HOST = "127.0.0.1"
Round = Callable[[bytes], Awaitable[None]]


def a_study(folder: Path, clients: int) -> tuple[Identities, list[ssl.SSLContext]]:
    study, now = Identities(folder / "identities"), datetime.now(UTC)
    study.create("benchmark", f"{HOST}:1", [], now)
    return study, [read_bundle(study.enrol_with_key(client, now)).context() for client in range(clients)]


@asynccontextmanager
async def raw(folder: Path, clients: int, secure: bool) -> AsyncIterator[Round]:
    """The library alone: the server sends to all, each client sends back."""
    study, contexts = a_study(folder, clients) if secure else (None, [None] * clients)
    at_server: list[ServerConnection] = []

    async def stay(connection: ServerConnection) -> None:
        at_server.append(connection)
        await connection.wait_closed()

    options = {"compression": None, "max_size": None}
    context = study.context(print) if study else None
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(serve(stay, HOST, 0, ssl=context, **options))
        where = f"{'wss' if secure else 'ws'}://{HOST}:{server.sockets[0].getsockname()[1]}"
        ends = [
            await stack.enter_async_context(connect(where, ssl=own, proxy=None, **options))
            for own in contexts
        ]

        async def echo(end: object) -> None:
            await end.send(await end.recv())  # type: ignore[attr-defined]

        async def round_trip(content: bytes) -> None:
            echoes = [asyncio.create_task(echo(end)) for end in ends]
            await asyncio.gather(*(connection.send(content) for connection in at_server))
            await asyncio.gather(*(connection.recv() for connection in at_server))
            await asyncio.gather(*echoes)

        yield round_trip


@asynccontextmanager
async def ours(folder: Path, clients: int, secure: bool) -> AsyncIterator[Round]:
    study, contexts = a_study(folder, clients) if secure else (None, [None] * clients)
    server = WebsocketServer(clients, identities=study, spool_folder=folder)
    await server.start(HOST, 0)
    ends = [
        WebsocketClient(number, HOST, server.address[1], context=own, rng=np.random.default_rng(number))
        for number, own in enumerate(contexts)
    ]
    for end in ends:
        end.start()
        await server.next(), await end.next()

    async def echo(end: WebsocketClient) -> None:
        while True:
            event = await end.next()
            if isinstance(event, Arrived):
                end.send([event.message])
                event.release()

    echoes = [asyncio.create_task(echo(end)) for end in ends]

    async def round_trip(content: bytes) -> None:
        for client in range(clients):
            server.send(client, [content])
        for _ in range(clients):
            event = await server.next()
            assert isinstance(event, Arrived) and len(event.message) == len(content)
            event.release()

    yield round_trip
    for task in echoes:
        task.cancel()
    for end in ends:
        await end.close()
    await server.close()


async def measure(clients: int, size: int, rounds: int, secure: bool) -> tuple[float, float]:
    """Median seconds of a round, raw and ours, taken in turn."""
    content = np.random.default_rng(0).bytes(size)
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        async with raw(Path(one), clients, secure) as plain, ours(Path(two), clients, secure) as own:
            times: tuple[list[float], list[float]] = ([], [])
            for _ in range(rounds):
                for kind, taken in zip((plain, own), times, strict=True):
                    began = time.perf_counter()
                    await kind(content)
                    taken.append(time.perf_counter() - began)
    return statistics.median(times[0]), statistics.median(times[1])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=60)
    rounds = parser.parse_args().rounds
    print(f"{'':34}{'raw':>10}{'fedpace':>10}{'ratio':>8}")
    for secure in (False, True):
        for name, clients, size, repeats, messages in (
            ("10 kB, 20 clients, per message", 20, 10_000, rounds, 40),
            ("10 MB, both ways", 1, 10_000_000, max(rounds // 4, 5), 1),
        ):
            with contextlib.suppress(KeyboardInterrupt):
                plain, own = asyncio.run(measure(clients, size, repeats, secure))
                label = f"{name}{', TLS' if secure else ''}"
                print(
                    f"{label:34}{plain / messages * 1e3:7.2f} ms{own / messages * 1e3:7.2f} ms{own / plain:8.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
