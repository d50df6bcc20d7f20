"""Bytes that are almost right, before and after the handshakes: refused and counted, without crash or growth."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from deploy.pairs import SMALL, joining, message, run, serving, small, until
from deploy.websocket.malformed import Mutator
from fedpace.deploy.identity.bundles import read_bundle
from fedpace.deploy.identity.enrolment import Identities
from fedpace.deploy.transport import Arrived, Connected
from fedpace.deploy.websocket.addresses import PATH, uri
from fedpace.deploy.websocket.chunks import ViolationError
from fedpace.deploy.websocket.link import Link
from fedpace.deploy.websocket.server import WebsocketServer
from fedpace.deploy.websocket.spool import Spool
from fedpace.deploy.websocket.wire import (
    NO_LINK,
    START,
    HelloFrame,
    Place,
    chunk_header,
    greeting_bytes,
    parse,
    seal,
)
from fedpace.errors import FrameError

HOST = "127.0.0.1"
HELLO = greeting_bytes(HelloFrame(0, b"m" * 16, NO_LINK, START))
MIB = 1 << 20
ROOM = small(joins_a_minute=10**9, takeovers_a_minute=10**9)


def resident_bytes() -> int:
    """Memory of this process now, without garbage and without what the allocator keeps for later."""
    statm = Path("/proc/self/statm")
    if not statm.exists():
        pytest.skip("this system does not tell the memory of a process")
    gc.collect()
    with contextlib.suppress(AttributeError):  # a C library without it
        ctypes.CDLL(None).malloc_trim(0)
    return int(statm.read_text().split()[1]) * 4096


def test_a_link_bears_any_frames() -> None:
    links_bear(5_000)


@pytest.mark.long
def test_a_link_bears_a_million_frames_without_growth() -> None:
    links_bear(100_000)
    before = resident_bytes()
    links_bear(1_000_000)
    assert resident_bytes() - before < 16 * MIB


def links_bear(count: int) -> None:
    """Each frame is taken or refused with an error of ours, and a link that ended holds no space."""
    mutator, spool, refused = Mutator(1), Spool(SMALL, None), 0
    link = Link(0, b"s" * 16, SMALL, spool)
    for _ in range(count):
        hostile = mutator.rng.random() < 0.1
        try:
            for body in link.take(parse(mutator.hostile() if hostile else mutator.harmless())):
                body.release()
            link.next_frame()
        except (ViolationError, FrameError):
            refused += 1
            link.discard()
            assert spool.memory.lent == 0
            mutator.begin()
            link = Link(0, b"s" * 16, SMALL, spool)
    link.discard()
    assert refused > count / 50 and spool.memory.lent == spool.disk.lent == 0


async def release_all(server: WebsocketServer) -> None:
    """A driver that only takes."""
    while True:
        event = await server.next()
        if isinstance(event, Arrived):
            event.release()


@contextlib.asynccontextmanager
async def bystander(server: WebsocketServer, context: ssl.SSLContext | None = None) -> Iterator[None]:  # type: ignore[misc]
    """Another client, which must not notice anything."""
    async with joining(1, server.address[1], context=context) as client:
        assert await client.next() == Connected(1)
        yield
        server.send(1, [b"are you there?"])
        assert await message(client) == b"are you there?"


def after_the_handshake(count: int, folder: Path) -> None:
    """A member with a valid certificate sends frames, a few of them hostile; each connection until it is refused."""

    async def check() -> None:
        study = Identities(folder)
        now = datetime.now(UTC)
        study.create("hearts", f"{HOST}:1", [], now)
        own, other = (read_bundle(study.enrol_with_key(client, now)).context() for client in (0, 1))
        async with serving(identities=study, limits=ROOM) as server, bystander(server, other):
            taking = asyncio.create_task(release_all(server))
            mutator, sent, before = Mutator(2), 0, 0
            while sent < count:
                sent += await _misbehave(mutator, server.address[1], own)
                if before == 0 and sent > count / 10:
                    before = resident_bytes()
            taking.cancel()
            assert resident_bytes() - before < 32 * MIB
            assert sum(server.rejected.values()) > 0

    run(check()) if count < 10_000 else asyncio.run(check())


async def _misbehave(mutator: Mutator, port: int, context: ssl.SSLContext) -> int:
    """Frames that got out before the connection ended."""
    sent = 0
    with contextlib.suppress(OSError, EOFError, WebSocketException):
        async with connect(
            uri(HOST, port, secure=True), ssl=context, compression=None, proxy=None, ping_interval=None
        ) as socket:
            mutator.begin()
            await socket.send(HELLO)
            reading = asyncio.create_task(_read_all(socket))
            try:
                while not reading.done():
                    hostile = mutator.rng.random() < 0.005
                    await socket.send(mutator.hostile() if hostile else mutator.harmless())
                    sent += 1
                    if sent % 4 == 0:  # or asyncio complains of writes to a connection that is gone
                        await asyncio.sleep(0)
            finally:
                await reading
    return sent


async def _read_all(socket: ClientConnection) -> None:
    with contextlib.suppress(ConnectionClosed):
        async for _ in socket:
            pass


def test_frames_of_a_member_after_the_handshake(tmp_path: Path) -> None:
    after_the_handshake(2_000, tmp_path)


@pytest.mark.long
def test_a_million_frames_of_a_member_after_the_handshake(tmp_path: Path) -> None:
    after_the_handshake(1_000_000, tmp_path)


def client_hello() -> bytes:
    """What a TLS client sends first."""
    context, incoming, outgoing = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()


def upgrade_request() -> bytes:
    lines = [
        f"GET {PATH} HTTP/1.1",
        "Host: localhost",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version: 13",
    ]
    return "\r\n".join([*lines, "", ""]).encode()


def before_the_handshake(count: int, folder: Path) -> None:
    """Changed hellos of TLS, and changed requests to become a WebSocket where there is no TLS."""

    async def check() -> None:
        study = Identities(folder)
        now = datetime.now(UTC)
        study.create("hearts", f"{HOST}:1", [], now)
        other = read_bundle(study.enrol_with_key(1, now)).context()
        async with (
            serving(identities=study) as locked,
            serving(clients=2) as plain,
            bystander(locked, other),
            bystander(plain),
        ):
            mutator, before = Mutator(3), 0
            for number in range(count):
                server, text = (locked, client_hello()) if number % 2 else (plain, upgrade_request())
                await _blurt(server.address[1], mutator._broken(text))
                if number == count // 10:
                    before = resident_bytes()
            assert resident_bytes() - before < 32 * MIB
            assert len(locked._events) == len(plain._events) == 1  # the bystander's own arrival

    run(check()) if count < 10_000 else asyncio.run(check())


async def _blurt(port: int, text: bytes) -> None:
    _, writer = await asyncio.open_connection(HOST, port)
    with contextlib.suppress(OSError):
        writer.write(text)
        writer.write_eof()
        await writer.drain()
        await asyncio.sleep(0)
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


def test_bytes_before_the_handshake(tmp_path: Path) -> None:
    before_the_handshake(100, tmp_path)


@pytest.mark.long
def test_a_hundred_thousand_before_the_handshake(tmp_path: Path) -> None:
    before_the_handshake(100_000, tmp_path)


@contextlib.asynccontextmanager
async def raw(server: WebsocketServer) -> Iterator[ClientConnection]:  # type: ignore[misc]
    async with connect(uri(HOST, server.address[1], secure=False), compression=None, proxy=None) as socket:
        yield socket


async def refused_for(
    reason: str, *frames: bytes | str | list[bytes], ping: int = 0, hello: bool = True
) -> None:
    async with serving() as server, bystander(server), raw(server) as socket:
        if hello:
            await socket.send(seal(HELLO))
        with contextlib.suppress(ConnectionClosed):
            for frame in frames:
                await socket.send(frame)
            for _ in range(ping):
                await socket.ping()
        await until(lambda: server.rejected[reason])
        await socket.wait_closed()


@pytest.mark.parametrize(
    ("reason", "frame"),
    [
        ("control", "text"),
        ("control", [b"fragments", b" of a frame"]),
        ("size", bytes(SMALL.frame_bytes + 1)),
        ("frame", b""),
        ("frame", HELLO),  # without its checksum
        ("frame", seal(HELLO)),  # a second one
        ("order", seal(chunk_header(Place(5, 0), 1) + b"x")),
        ("size", seal(chunk_header(START, 2**64 - 1) + b"x")),
        ("position", seal(b"\x04" + b"\xff" * 16)),
    ],
)
def test_frames_that_break_a_rule_are_refused_and_counted(
    reason: str, frame: bytes | str | list[bytes]
) -> None:
    run(refused_for(reason, frame))


def test_pings_are_refused() -> None:
    """We never send them, and answers to a peer that does not read would pile up."""
    run(refused_for("control", ping=1))


@pytest.mark.parametrize(
    "first", [b"\x05", HELLO[:-1], HELLO.replace(b"fedpace", b"fedpack"), b"\x03" + bytes(24)]
)
def test_the_first_frame_must_be_a_hello(first: bytes) -> None:
    run(refused_for("frame", seal(first), hello=False))


def test_a_flood_of_tiny_frames_is_cut_before_it_is_queued() -> None:
    """The library would queue all that came at once: our limit is what a peer within its credit can send."""

    async def check() -> None:
        async with serving() as server, bystander(server), raw(server) as socket:
            frame = b"\x82\x80\x00\x00\x00\x00"  # masked, binary, empty
            socket.transport.write(frame * 60_000)
            await until(lambda: server.rejected["flood"] or server.rejected["frame"])
            await socket.wait_closed()

    run(check())


def test_who_says_nothing_is_shown_out() -> None:
    async def check() -> None:
        async with serving(limits=small(opening_seconds=0.05)) as server, raw(server) as socket:
            await socket.wait_closed()
            assert dict(server.rejected) == {"no hello": 1}

    run(check())


def test_mutations_are_the_seeds() -> None:
    one, two = (Mutator(5) for _ in range(2))
    assert [one.hostile() for _ in range(50)] == [two.hostile() for _ in range(50)]
    assert np.mean([len(one.harmless()) for _ in range(50)]) > 1
