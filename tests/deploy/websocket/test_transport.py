"""Server and clients over real sockets. No test waits for a clock: limits are small, time is moved by hand."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from websockets.asyncio.client import connect

from deploy.faults import DOWN, UP, faulty
from deploy.pairs import (
    SMALL,
    Clock,
    joining,
    message,
    messages,
    quick_client,
    run,
    serving,
    small,
    until,
)
from fedpace.deploy.transport import Arrived, ClientTransport, Connected, Disconnected, ServerTransport
from fedpace.deploy.websocket.addresses import PATH
from fedpace.deploy.websocket.client import WebsocketClient
from fedpace.deploy.websocket.server import WebsocketServer
from fedpace.deploy.websocket.wire import NO_LINK, START, HelloFrame, greeting_bytes, seal
from fedpace.errors import ConfigError

HELLO = greeting_bytes(HelloFrame(0, b"m" * 16, NO_LINK, START))
ONE_MIB = bytes(range(256)) * 4096


def test_they_are_the_transports_of_the_driver() -> None:
    async def check() -> None:
        server: ServerTransport = WebsocketServer(1, identities=None)
        client: ClientTransport = quick_client(0, 1)
        assert dict(server.rejected) == {} and client is not None

    run(check())


def test_messages_go_both_ways_in_order() -> None:
    async def check() -> None:
        async with serving() as server, joining(3, server.address[1]) as client:
            assert await server.next() == Connected(3) and await client.next() == Connected(3)
            sent = [bytes([n]) * (n * 700) for n in range(30)]
            for content in sent:
                server.send(3, [content[:5], content[5:]])
                client.send([content])
            assert await messages(client, 30) == sent
            assert await messages(server, 30) == sent

    run(check())


def test_a_message_to_nobody_is_dropped() -> None:
    async def check() -> None:
        async with serving() as server, joining(0, server.address[1]) as client:
            client.send([b"too early"])
            server.send(5, [b"nobody"])
            await client.next()
            client.send([b"first"])
            assert await server.next() == Connected(0)
            assert await message(server) == b"first"

    run(check())


def test_a_large_upload_is_spooled_and_arrives(tmp_path: Path) -> None:
    async def check() -> None:
        async with serving(tmp_path) as server, joining(0, server.address[1]) as client:
            await server.next(), await client.next()
            client.send([ONE_MIB, ONE_MIB])
            event = await server.next()
            assert isinstance(event, Arrived) and event.message == ONE_MIB + ONE_MIB
            event.release()

    run(check())


def test_a_transfer_goes_on_at_its_last_chunk_after_every_cut(tmp_path: Path) -> None:
    """Each connection carries a tenth of the message at most: begun anew each time it would never arrive."""

    async def check() -> None:
        async with serving(tmp_path) as server, faulty(server.address[1]) as proxy:
            proxy.cut_after(*[100_000] * 30)
            async with joining(0, proxy.port) as client:
                assert await server.next() == Connected(0) and await client.next() == Connected(0)
                client.send([ONE_MIB])
                server.send(0, [ONE_MIB])
                assert await message(server) == ONE_MIB
                assert await message(client) == ONE_MIB
                assert proxy.connections >= 10
                assert max(proxy.forwarded[UP], proxy.forwarded[DOWN]) < 2 * len(ONE_MIB)

    run(check())


def test_cuts_between_messages_lose_and_repeat_none() -> None:
    async def check() -> None:
        async with serving() as server, faulty(server.address[1]) as proxy, joining(0, proxy.port) as client:
            await server.next(), await client.next()
            for number in range(25):
                client.send([str(number).encode()])
                server.send(0, [str(number).encode()])
                if number % 5 == 4:
                    proxy.cut()
                    await asyncio.sleep(0)
            assert await messages(server, 25) == [str(number).encode() for number in range(25)]
            assert await messages(client, 25) == [str(number).encode() for number in range(25)]

    run(check())


def test_damaged_bytes_end_the_connection_and_nothing_wrong_arrives() -> None:
    """Without TLS each frame has a checksum; the client comes back, with a link of its own."""

    async def check() -> None:
        async with serving() as server, faulty(server.address[1]) as proxy, joining(0, proxy.port) as client:
            await server.next(), await client.next()

            def flip(direction: str, data: bytes) -> list[bytes]:
                if direction == DOWN or len(data) < 1000:
                    return [data]
                proxy.damage = lambda direction, data: (data,)
                return [data[:-1] + bytes([data[-1] ^ 16])]

            proxy.damage = flip
            client.send([ONE_MIB[:2000]])
            assert isinstance(await server.next(), Disconnected)
            assert server.rejected["frame"] == 1
            assert await server.next() == Connected(0)

    run(check())


def test_a_client_that_left_says_so() -> None:
    async def check() -> None:
        async with serving() as server:
            async with joining(2, server.address[1]) as client:
                await server.next(), await client.next()
                client.send([b"last words"])
            assert await message(server) == b"last words"
            assert await server.next() == Disconnected(2, "it left: the client ends")
            assert dict(server.rejected) == {}

    run(check())


def test_a_server_that_ends_delivers_what_is_queued() -> None:
    async def check() -> None:
        async with serving() as server:
            client = quick_client(2, server.address[1])
            client.start()
            await server.next(), await client.next()
            server.send(2, [ONE_MIB])
            server.send(2, [b"the end"])
            await server.close()
            assert await message(client) == ONE_MIB
            assert await message(client) == b"the end"
            assert await client.next() == Disconnected(2, "the server ends")
            await client.close()

    run(check())


def test_a_server_that_ends_does_not_wait_for_one_that_greets_too_late() -> None:
    """Its connection stood before the end, its hello came after everybody else was dismissed."""

    async def check() -> None:
        async with serving() as server, connect(f"ws://127.0.0.1:{server.address[1]}{PATH}") as late:
            closing = asyncio.ensure_future(server.close())
            await asyncio.sleep(0)
            await late.send(seal(HELLO))
            await closing
            assert server.rejected["closing"] == 1

    run(check())


def test_a_new_server_is_found_again() -> None:
    async def check() -> None:
        async with serving() as server, faulty(server.address[1]) as proxy, joining(1, proxy.port) as client:
            await client.next()
            async with serving() as other:
                proxy._target = lambda: other.address[1]
                proxy.cut()
                assert await client.next() == Disconnected(1, "the server does not remember this link")
                assert await client.next() == Connected(1)
                assert await other.next() == Connected(1)

    run(check())


def test_a_restarted_client_is_told_apart_from_its_former_self() -> None:
    async def check() -> None:
        async with serving() as server, joining(1, server.address[1]) as old:
            await server.next(), await old.next()
            async with joining(1, server.address[1], backoff=_never) as new:
                assert await new.next() == Connected(1)
                assert await server.next() == Disconnected(1, "it came back as a new process")
                assert await server.next() == Connected(1)
                old._tasks[0].cancel()
                new.send([b"mine"])
                assert await message(server) == b"mine"

    run(check())


def _never(rng: object) -> object:
    class Never:
        def failed(self) -> float:
            return 3600.0

        def succeeded(self) -> None: ...

    return Never()


def test_two_machines_with_one_identity_are_suspended_with_an_alarm() -> None:
    async def check() -> None:
        alarms: list[str] = []
        async with serving(alarm=alarms.append) as server:
            async with joining(1, server.address[1]), joining(1, server.address[1]):
                await until(lambda: server.rejected["suspended"])
            assert "client 1 is suspended" in alarms[0]
            events = []
            while len(server._events):
                events.append(await server.next())
            assert sum(isinstance(event, Connected) for event in events) == 1 + SMALL.takeovers_a_minute
            assert isinstance(events[-1], Disconnected)

    run(check())


def test_a_slow_reader_blocks_nobody_else() -> None:
    async def check() -> None:
        async with (
            serving(limits=small(queued_bytes=3 << 20)) as server,
            faulty(server.address[1]) as proxy,
            joining(0, proxy.port) as slow,
            joining(1, server.address[1]) as quick,
        ):
            await slow.next(), await quick.next()
            proxy.freeze()
            server.send(0, [ONE_MIB])
            server.send(0, [ONE_MIB])
            for _ in range(5):
                server.send(1, [ONE_MIB])
                assert await message(quick) == ONE_MIB
            server.send(0, [ONE_MIB, b"and a byte"])
            assert server.rejected["slow"] == 1
            proxy.thaw()

    run(check())


def test_an_upload_waits_while_the_driver_holds_the_space(tmp_path: Path) -> None:
    """Nothing is refused and memory stays bounded: the sender's credit runs out."""

    async def check() -> None:
        async with serving(tmp_path) as server, joining(0, server.address[1]) as client:
            await server.next(), await client.next()
            held = []
            content = bytes(50 * 1024)
            for _ in range(10):
                client.send([content])
            for _ in range(2):
                held.append(await server.next())
            await until(lambda: server._seats.get(0).link.receiving.is_waiting)  # type: ignore[union-attr]
            assert len(server._events) == 0
            for event in held:
                event.release()  # type: ignore[union-attr]
            assert await messages(server, 8) == [content] * 8

    run(check())


def test_silence_for_three_heartbeats_ends_a_connection_and_time_away_the_link() -> None:
    async def check() -> None:
        clock = Clock()
        limits = small(heartbeat_s=10.0, resume_seconds=20.0)
        async with serving(clock=clock, limits=limits) as server, faulty(server.address[1]) as proxy:
            client = quick_client(0, proxy.port, limits=limits, clock=Clock())
            client.start()
            await server.next(), await client.next()
            seat = server._seats.get(0)
            assert seat is not None
            proxy.freeze()
            clock.now += 30.0
            server.housekeep()
            assert seat.conversation is not None
            clock.now += 0.1
            server.housekeep()
            await until(lambda: seat.conversation is None)
            clock.now += 20.0
            server.housekeep()
            assert server._seats.get(0) is seat
            clock.now += 0.1
            server.housekeep()
            assert await server.next() == Disconnected(0, "away for more than 20 s")
            await client.close()

    run(check())


def test_heartbeats_keep_a_quiet_link_alive() -> None:
    async def check() -> None:
        clock = Clock()
        limits = small(heartbeat_s=10.0)
        async with (
            serving(clock=clock, limits=limits) as server,
            faulty(server.address[1]) as proxy,
            joining(0, proxy.port, clock=clock, limits=limits) as client,
        ):
            await server.next(), await client.next()
            for _ in range(10):
                before = dict(proxy.forwarded)
                clock.now += 10.0
                server.housekeep()
                client.housekeep()
                await until(lambda: all(proxy.forwarded[way] > before[way] for way in (UP, DOWN)))  # noqa: B023
                seat = server._seats.get(0)
                await until(lambda: seat.conversation.channel.pulse.heard_at == clock.now)  # type: ignore[union-attr] # noqa: B023
            client.send([b"still here"])
            assert await message(server) == b"still here"

    run(check())


def test_a_stalled_upload_gives_its_space_back(tmp_path: Path) -> None:
    async def check() -> None:
        clock = Clock()
        limits = small(stall_seconds=50.0)
        async with (
            serving(tmp_path, clock=clock, limits=limits) as server,
            faulty(server.address[1]) as proxy,
            joining(0, proxy.port, limits=limits) as client,
        ):
            await server.next(), await client.next()
            proxy.cut_after()
            proxy.damage = lambda way, data: () if proxy.forwarded[UP] > 300_000 else (data,)
            client.send([ONE_MIB])
            await until(lambda: proxy.forwarded[UP] > 300_000)
            server.housekeep()
            clock.now += 50.1
            server.housekeep()
            server.housekeep()
            clock.now += 50.1
            server.housekeep()
            assert isinstance(await server.next(), Disconnected)
            assert server.rejected["stalled"] == 1

    run(check())


def test_a_client_that_the_driver_dismisses_is_told_why() -> None:
    async def check() -> None:
        async with serving() as server, joining(4, server.address[1]) as client:
            await server.next(), await client.next()
            server.send(4, [b"goodbye"])
            server.disconnect(4, "another plan")
            assert await server.next() == Disconnected(4, "another plan")
            assert await message(client) == b"goodbye"
            assert await client.next() == Disconnected(4, "another plan")
            assert await client.next() == Connected(4)

    run(check())


def test_a_number_outside_the_study_is_refused_in_words() -> None:
    async def check() -> None:
        async with serving(clients=2) as server, joining(2, server.address[1]) as client:
            await until(lambda: server.rejected["number"])
            await until(lambda: client.trouble)
            assert client.trouble == "no client 2 among 2"

    run(check())


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.0.1", "::", "example.org", "127.0.0.1.example.org", ""])
def test_without_certificates_only_this_machine(host: str) -> None:
    async def check() -> None:
        with pytest.raises(ConfigError, match="on this machine"):
            await WebsocketServer(1, identities=None).start(host, 0)
        with pytest.raises(ConfigError, match="on this machine"):
            WebsocketClient(0, host, 1, context=None, rng=None)  # type: ignore[arg-type]

    run(check())


def test_a_rate_slows_a_client_down_without_refusing_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check() -> None:
        waits = []
        real = asyncio.sleep

        async def sleep(seconds: float) -> None:
            if seconds > 1000:
                waits.append(seconds)
                seconds = 0
            await real(seconds)

        monkeypatch.setattr("fedpace.deploy.websocket.conversation.asyncio.sleep", sleep)
        limits = small(bytes_per_second=1e-3, burst_seconds=1e7)
        async with serving(limits=limits, clock=Clock()) as server, joining(0, server.address[1]) as client:
            await server.next(), await client.next()
            for _ in range(12):
                client.send([bytes(1000)])
            assert len(await messages(server, 12)) == 12
            assert waits and dict(server.rejected) == {}

    run(check())
