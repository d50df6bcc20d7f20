"""Runs on real clients within one process: quadratics, a transport of queues, folders of their own."""

from __future__ import annotations

import asyncio
import inspect
import shutil
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from fedpace import Algorithm, Run, algorithms
from fedpace.deploy import Owner, join_async, serve_async
from fedpace.deploy.local import LocalNetwork
from fedpace.server import Step
from fedpace.tasks import quadratics

CLIENTS, ROUNDS, SEED = 6, 4, 5
TASK = quadratics(np.arange(18.0).reshape(CLIENTS, 3) / 16, weights=[1, 2, 3, 4, 5, 6])
SAMPLES = [TASK.samples(client) for client in range(CLIENTS)]
SIZES: dict[str, Any] = {
    "clients_per_round": 3,
    "buffer": 2,
    "concurrency": 4,
    "draws": 3,
    "steps": 4,
    "client_lr": 0.1,
    "server_lr": 0.1,
    "codec": "topk:1/3",
    "down_codec": "topk:2/3",
    "rounds": ROUNDS,
    "server_period": 0.01,
}
MORE: dict[str, dict[str, Any]] = {
    "multistage_fedgm": {"server_lr": (0.2, 0.1)},
    "autonomous_fedgm": {"history": 3},
    "fednova": {"steps": [1, 2, 3, 4, 5, 6]},
    "mf_ca2fl": {"cache_bits": 4},
}
PATIENCE_S = 600.0  # of a test, for what takes a moment

Script = Callable[["Bed"], Awaitable[None]]


def made(name: str, **more: Any) -> Algorithm:
    """The algorithm with sizes that fit six clients."""
    make = getattr(algorithms, name)
    chosen = SIZES | MORE.get(name, {}) | more
    return make(**{key: value for key, value in chosen.items() if key in inspect.signature(make).parameters})


VARIANTS: dict[str, Algorithm] = {name: made(name) for name in algorithms.__all__} | {
    "two_way, ef21": made("two_way", memory="ef21", tau=0.5),
    "two_way, seeded": made("two_way", first="seed"),
    "fednlaca, quantised": made("fednlaca", codec="quant:3", tau=0.9),
    "fedbuff, immediate": made("fedbuff", dispatch="immediate"),
    "autonomous_fedgm, event-driven": made("autonomous_fedgm", history=None),
    "defedavg_iid, reuse": made("defedavg_iid", reuse_model=True),
    "defedavg_iid, distinct": made("defedavg_iid", distinct=True),
    "defedavg_niid, saving": made("defedavg_niid", energy_saving=True),
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
