"""Runs on real clients within one process: quadratics, a transport of queues, folders of their own."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests import six_clients
from tests.six_clients import CLIENTS, TASK

from fedpace import Algorithm, Run
from fedpace.deploy import Owner, join_async, serve_async
from fedpace.deploy.local import LocalNetwork
from fedpace.server import Step

ROUNDS, SEED = 4, 5
SAMPLES = [TASK.samples(client) for client in range(CLIENTS)]
PATIENCE_S = 600.0  # of a test, for what takes a moment

Script = Callable[["Bed"], Awaitable[None]]


def made(name: str, **more: Any) -> Algorithm:
    """The algorithm of that name, with the few and short rounds of a test."""
    return six_clients.made(name, **{"rounds": ROUNDS, "server_period": 0.01} | more)


VARIANTS: dict[str, Algorithm] = six_clients.variants(made) | {
    "two_way, seeded": made("two_way", first="seed")
}


def copied(folder: Path, to: Path) -> Path:
    """A copy of a folder as it was at one moment, though a thread may be writing there: then another one is made."""
    while True:
        before = names(folder)
        with suppress(shutil.Error):
            shutil.copytree(folder, to)
            if names(folder) == names(to) == before:
                return to
        shutil.rmtree(to, ignore_errors=True)


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


class Bed:
    """One run: a server and its clients as tasks of one loop; a script may cut, kill and start them meanwhile."""

    def __init__(self, algorithm: Algorithm, folder: Path, *, disks: bool = False, **options: Any) -> None:
        self.disks = disks  # whether clients remember anything after a restart
        self.algorithm, self.folder, self.place = algorithm, folder, folder / "server"
        self.options = {"clients": CLIENTS, "rounds": ROUNDS, "seed": SEED, "samples": SAMPLES} | options
        self.network: LocalNetwork
        self.clients: dict[int, asyncio.Task[str]] = {}
        self.server: asyncio.Task[Run]
        self.task: Any = TASK  # the server's, and of clients that have no other
        self.tasks: dict[int, Any] = {}  # of clients that have only their own data
        self.owners: dict[int, Owner] = {}
        self.leaving: dict[int, Callable[[], None]] = {}  # makes a client leave
        self.first = range(CLIENTS)  # that join at the beginning
        self.version = 0  # of the last step that was reported
        self.moved = asyncio.Event()  # another one was

    def run(self, script: Script | None = None) -> Run:
        return asyncio.run(self._run(script))

    async def _run(self, script: Script | None) -> Run:
        async with asyncio.timeout(PATIENCE_S):
            return await self._run_patiently(script)

    async def _run_patiently(self, script: Script | None) -> Run:
        self.network = LocalNetwork()
        self.serve()
        for number in self.first:
            self.join(number)
        if script is not None:
            await script(self)
        run = await self.server
        for client in self.clients.values():  # one that was not connected at the end waits for ever
            client.cancel()
        await asyncio.gather(*self.clients.values(), return_exceptions=True)
        return run

    def serve(self) -> None:
        options = {"wait_for": CLIENTS, "evaluate_every": None, "told": [self._stepped]} | self.options
        serving = serve_async(self.algorithm, self.task, self.network.listen(), self.place, **options)
        self.server = asyncio.ensure_future(serving)

    def join(self, number: int) -> None:
        place = self.folder / f"client-{number}" if self.disks else None
        task = self.tasks.get(number, self.task)
        joining = join_async(
            task,
            self.network.client(number),
            data=number if task.clients == CLIENTS else 0,
            folder=place,
            owner=self.owners.get(number),
            stoppable=lambda leave: self.leaving.__setitem__(number, leave),
        )
        self.clients[number] = asyncio.ensure_future(joining)

    def _stepped(self, step: Step, _: object) -> None:
        self.version = step.version
        self.moved.set()

    async def reached(self, version: int) -> None:
        """Until the server took this step, or ended. The step itself says so: who looks later may find the run over."""
        while self.version < version and not self.server.done():
            self.moved.clear()
            moved = asyncio.ensure_future(self.moved.wait())
            await asyncio.wait({moved, self.server}, return_when=asyncio.FIRST_COMPLETED)
            moved.cancel()

    def cut(self, number: int) -> None:
        """The client's connection breaks, and it connects again."""
        self.network.cut(number)

    async def kill_client(self, number: int) -> None:
        """It ends at once, and says nothing."""
        self.clients[number].cancel()
        await asyncio.gather(self.clients[number], return_exceptions=True)

    async def serve_after_failure(self) -> None:
        """Another one continues from `place`, once this one has ended by itself."""
        await asyncio.gather(self.server, return_exceptions=True)
        self.serve()

    async def kill_server(self, backup: Path | None = None) -> None:
        """Another one continues from the disk as it is at this moment, or from a backup."""
        self.place = copied(backup or self.place, self.folder / f"{self.place.name}+")
        self.server.cancel()
        await asyncio.gather(self.server, return_exceptions=True)
        self.serve()
