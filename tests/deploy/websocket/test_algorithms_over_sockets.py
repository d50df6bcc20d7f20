"""Every named algorithm over real sockets in one process, through a proxy that cuts connections meanwhile."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.deploy.deployed import CLIENTS, ROUNDS, SEED, TASK, Bed, made

import fedpace
from deploy.faults import faulty
from deploy.pairs import quick_client, small
from fedpace import Run, algorithms
from fedpace.deploy import join_async, replay, serve_async
from fedpace.deploy.websocket.server import WebsocketServer
from fedpace.pace import Replayed, Rounds

ROOM = small(
    takeovers_a_minute=10**9
)  # where connections are cut before they are answered, all of them begin anew


class SocketBed(Bed):
    """The same run over the built-in transport."""

    async def _run_patiently(self, script: object) -> Run:
        transport = WebsocketServer(CLIENTS, identities=None, limits=ROOM)
        await transport.start("127.0.0.1", 0)
        async with faulty(transport.address[1]) as proxy:
            cuts = [lambda step, coordinator: proxy.cut()]  # every connection, at every step
            options = {"wait_for": CLIENTS, "evaluate_every": None, "told": cuts} | self.options
            server = asyncio.ensure_future(
                serve_async(self.algorithm, TASK, transport, self.place, **options)
            )
            clients = [asyncio.ensure_future(self._client(number, proxy.port)) for number in range(CLIENTS)]
            run = await server
            await transport.close()
            for client in clients:
                client.cancel()
            await asyncio.gather(*clients, return_exceptions=True)
        # connections that were cut as they began, and clients that the last cut brings back to a server that ends
        assert set(transport.rejected) <= {"http", "no hello", "closing"}
        return run

    async def _client(self, number: int, port: int) -> None:
        transport = quick_client(number, port)
        transport.start()
        try:
            await join_async(TASK, transport, data=number, folder=None)
        finally:
            await transport.close()


@pytest.mark.parametrize("name", algorithms.__all__)
def test_over_sockets_a_run_replays_to_the_same_bits(name: str, tmp_path: Path) -> None:
    """In order, a synchronous one has the bits of its simulation as well."""
    algorithm = made(name)
    synchronous = isinstance(algorithm.pace, Rounds | Replayed)
    run = SocketBed(algorithm, tmp_path, in_order=synchronous).run()
    assert (len(run.history), run.stopped) == (ROUNDS, None)
    again = replay(tmp_path / "server", TASK)
    assert again.run.model.tobytes() == run.model.tobytes() and again.different == ()
    if synchronous:
        simulated = fedpace.simulate(algorithm, TASK, rounds=ROUNDS, seed=SEED, evaluate_every=None)
        assert run.model.tobytes() == simulated.model.tobytes()
