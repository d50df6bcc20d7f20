"""Many mutual-TLS connections to one server process: python benchmarks/deploy_load.py [--updates N] [--storm N]

Clients live in four processes and speak the real protocol. No driver and no journal: what is measured is the transport.

    updates       of 10 kB from 500 clients, each answered with 10 kB; per second over ten seconds
    storm         1,000 clients lose their server; seconds from the first to the last that is connected again
    idle client   resident memory of a connected client beyond a process that has imported torch alone
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from fedpace.deploy.identity.bundles import read_bundle
from fedpace.deploy.identity.enrolment import Identities
from fedpace.deploy.transport import Arrived, Connected
from fedpace.deploy.websocket.client import WebsocketClient
from fedpace.deploy.websocket.server import WebsocketServer

HOST, PROCESSES, UPDATE = "127.0.0.1", 4, bytes(10_000)


async def join_all(bundles: Sequence[str], port: int, *, talk: bool) -> None:
    """Clients that connect for ever; with `talk` each sends an update for every message that it gets."""

    async def one(client: WebsocketClient) -> None:
        client.start()
        while True:
            event = await client.next()
            if isinstance(event, Arrived):
                event.release()
                if talk:
                    client.send([UPDATE])

    await asyncio.gather(*[one(a_client(path, port)) for path in bundles])


def a_client(path: str, port: int) -> WebsocketClient:
    bundle = read_bundle(path)
    rng = np.random.default_rng(bundle.client)
    return WebsocketClient(bundle.client, HOST, port, context=bundle.context(), rng=rng)


class Load:
    """A study with its clients in a few processes."""

    def __init__(self, folder: Path, clients: int, *, talk: bool) -> None:
        self.study, now = Identities(folder / "identities"), datetime.now(UTC)
        self.study.create("benchmark", f"{HOST}:1", [], now)
        self.bundles = [str(self.study.enrol_with_key(client, now)) for client in range(clients)]
        self.clients, self.talk, self.folder = clients, talk, folder
        self.processes: list[subprocess.Popen[bytes]] = []

    async def serve(self, port: int) -> WebsocketServer:
        server = WebsocketServer(self.clients, identities=self.study, spool_folder=self.folder)
        await server.start(HOST, port)
        return server

    def start(self, port: int) -> None:
        for part in range(PROCESSES):
            names = json.dumps(self.bundles[part::PROCESSES])
            command = [sys.executable, __file__, "--join", names, "--port", str(port)]
            self.processes.append(subprocess.Popen(command + ["--talk"] * self.talk))

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


async def all_connected(server: WebsocketServer, clients: int) -> float:
    """Seconds from the first connection until every client is connected."""
    began, there = 0.0, set()
    while len(there) < clients:
        event = await server.next()
        began = began or time.perf_counter()
        if isinstance(event, Connected):
            there.add(event.client)
        elif not isinstance(event, Arrived):
            there.discard(event.client)
    return time.perf_counter() - began


async def updates(folder: Path, clients: int = 500, seconds: float = 10.0) -> None:
    load = Load(folder, clients, talk=True)
    server = await load.serve(0)
    load.start(server.address[1])
    try:
        connecting = await all_connected(server, clients)
        for client in range(clients):
            server.send(client, [UPDATE])
        count, began = 0, time.perf_counter()
        while time.perf_counter() - began < seconds:
            event = await server.next()
            if isinstance(event, Arrived):
                count += 1
                server.send(event.client, [UPDATE])
                event.release()
        rate = count / (time.perf_counter() - began)
        print(
            f"{clients} mutual-TLS connections in {connecting:.1f} s; {rate:,.0f} updates/s of 10 kB",
            flush=True,
        )
    finally:
        load.stop()
        await server.close()


async def storm(folder: Path, clients: int = 1000, away_s: float = 3.0) -> None:
    load = Load(folder, clients, talk=False)
    server = await load.serve(0)
    port = server.address[1]
    load.start(port)
    try:
        first = await all_connected(server, clients)
        await server.close()
        await asyncio.sleep(away_s)
        server = await load.serve(port)
        again = await all_connected(server, clients)
        print(
            f"{clients} clients: connected in {first:.1f} s, again in {again:.1f} s after {away_s:g} s",
            flush=True,
        )
    finally:
        load.stop()
        await server.close()


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


async def idle(folder: Path) -> None:
    load = Load(folder, 1, talk=False)
    server = await load.serve(0)
    join = ["--join", json.dumps(load.bundles), "--port", str(server.address[1]), "--torch"]
    alone = subprocess.Popen(
        [sys.executable, "-c", "import torch, time; print(flush=True); time.sleep(600)"], stdout=-1
    )
    client = subprocess.Popen([sys.executable, __file__, *join])
    try:
        assert alone.stdout is not None
        alone.stdout.readline()
        await all_connected(server, 1)
        await asyncio.sleep(1.0)
        beyond = resident_bytes(client.pid) - resident_bytes(alone.pid)
        print(
            f"idle client: {beyond / 1e6:.0f} MB beyond torch's {resident_bytes(alone.pid) / 1e6:.0f} MB",
            flush=True,
        )
    finally:
        for process in (alone, client):
            process.kill()
            process.wait()
        await server.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--updates", type=int, default=500, help="connections (default: %(default)s; 0: leave it out)"
    )
    parser.add_argument(
        "--storm", type=int, default=1000, help="clients (default: %(default)s; 0: leave it out)"
    )
    parser.add_argument("--join", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--talk", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--torch", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.torch:
        import torch  # noqa: F401
    if args.join:
        asyncio.run(join_all(json.loads(args.join), args.port, talk=args.talk))
    chosen = {updates: args.updates, storm: args.storm}
    for measurement in (measurement for measurement, clients in chosen.items() if clients):
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(measurement(Path(folder), chosen[measurement]))
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(idle(Path(folder)))


if __name__ == "__main__":
    main()
