"""A listener that stops while a connection comes in: it is made and closed, not left half made."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

import pytest

from fedpace.deploy.accepting import stop_accepting
from fedpace.deploy.websocket.server import WebsocketServer

TURNS = pytest.mark.parametrize("turns", range(6))  # of the loop between a connection and the end


async def _complaints(
    address: tuple[str, int], turns: int, close: Callable[[], Awaitable[None]]
) -> list[str]:
    loop, complaints = asyncio.get_running_loop(), list[str]()
    loop.set_debug(True)  # asyncio reports a connection that it could not make only then
    loop.set_exception_handler(lambda loop, context: complaints.append(context["message"]))
    with socket.create_connection(address):
        for _ in range(turns):
            await asyncio.sleep(0)
        closing = asyncio.ensure_future(close())
        await asyncio.sleep(0.01)
    await closing
    await asyncio.sleep(0.01)
    return complaints


async def _hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


@TURNS
def test_a_connection_that_is_being_accepted_is_made(turns: int) -> None:
    async def check() -> list[str]:
        listener = await asyncio.start_server(_hang_up, "127.0.0.1", 0)

        async def close() -> None:
            await stop_accepting(listener.sockets)
            listener.close()

        return await _complaints(listener.sockets[0].getsockname(), turns, close)

    assert asyncio.run(check()) == []


@TURNS
def test_a_server_that_ends_makes_it_and_closes_it(turns: int) -> None:
    async def check() -> list[str]:
        server = WebsocketServer(1, identities=None)
        await server.start("127.0.0.1", 0)
        return await _complaints(server.address, turns, server.close)

    assert asyncio.run(check()) == []
