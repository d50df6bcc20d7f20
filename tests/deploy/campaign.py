"""A run of real processes under every kind of fault, one after another; in the end its journal must say the same.

After each fault the run must go on: two more server steps, or the campaign fails as a hang.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import Any

from tests.deploy.deployed import CLIENTS, TASK
from tests.deploy.faults import FaultyProxy, faithful, faulty
from tests.deploy.party import FULL, PORT, PROGRESS, RESULT

from fedpace.deploy import Owner, Replay, replay
from fedpace.deploy.measures import model_sha256
from fedpace.deploy.memory import ClientMemory
from fedpace.deploy.participant import Participant

ROOT = Path(__file__).parents[2]
PROCESSES = 3  # with the clients
PATIENCE_S = 300.0  # only a hang takes so long
MORE_STEPS = 2
KINDS = (
    "server killed",
    "client killed",
    "server stopped",
    "client stopped",
    "cut",
    "slow",
    "lost bytes",
    "duplicated bytes",
    "reordered bytes",
    "corrupted bytes",
    "full disk",
)
BYTES: dict[str, Callable[[bytes, Random], Iterable[bytes]]] = {
    "lost bytes": lambda data, random: (data[: random.randrange(len(data))],),
    "duplicated bytes": lambda data, random: (data, data),
    "reordered bytes": lambda data, random: (data[(at := random.randrange(len(data))) :], data[:at]),
    "corrupted bytes": lambda data, random: (corrupted(data, random),),
}


def corrupted(data: bytes, random: Random) -> bytes:
    changed = bytearray(data)
    changed[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return bytes(changed)


class Campaign:
    """One pacing; `run` makes one fault of each kind, in the order that the seed decides."""

    def __init__(self, folder: Path, name: str, seed: int) -> None:
        self.folder, self.name, self.random = folder, name, Random(f"{name} {seed}")
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.proxy: FaultyProxy

    def run(self, kinds: Iterable[str] = KINDS) -> dict[str, Any]:
        return asyncio.run(self._run(list(kinds)))

    async def _run(self, kinds: list[str]) -> dict[str, Any]:
        async with faulty(self._port) as self.proxy:
            try:
                self._start("server")
                for part in range(PROCESSES):
                    self._start(f"clients {part}")
                await self._goes_on("the start")
                for kind in self.random.sample(kinds, len(kinds)):
                    await self._fault(kind)
                    await self._goes_on(kind)
                await self._end()
            finally:
                for process in self.processes.values():
                    process.kill()
                    process.wait()
        return self._checked(kinds)

    # ------------------------------------------------------------ processes

    def _start(self, who: str) -> None:
        role, _, part = who.partition(" ")
        numbers = map(str, range(int(part), CLIENTS, PROCESSES)) if part else ()
        port = self.proxy.port if part else 0
        words = [sys.executable, "-m", "tests.deploy.party", role, str(self.folder), self.name, str(port)]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
        with (self.folder / f"{who}.log").open("ab") as log:
            self.processes[who] = subprocess.Popen(
                [*words, *numbers], cwd=ROOT, env=env, stdout=log, stderr=log
            )

    def _port(self) -> int:
        """Where the server listens now."""
        return int((self.folder / PORT).read_text())

    def _one_of_the_clients(self) -> str:
        return f"clients {self.random.randrange(PROCESSES)}"

    async def _ended(self, who: str) -> int:
        return await self._until(lambda: self.processes[who].poll(), f"the end of {who}")

    def _version(self) -> int:
        try:
            return int((self.folder / PROGRESS).read_text() or 0)
        except (FileNotFoundError, ValueError):
            return 0

    async def _goes_on(self, after: str) -> None:
        wanted = self._version() + MORE_STEPS
        await self._until(lambda: True if self._version() >= wanted else None, f"steps after {after}")

    async def _until(self, found: Callable[[], Any], what: str) -> Any:
        try:
            async with asyncio.timeout(PATIENCE_S):
                while (value := found()) is None:
                    await asyncio.sleep(0.01)
        except TimeoutError:
            raise AssertionError(f"{self.name}: waited in vain for {what}") from None
        return value

    async def _end(self) -> None:
        self.processes["server"].send_signal(signal.SIGTERM)
        assert await self._ended("server") == 0

    # ------------------------------------------------------------ faults

    async def _fault(self, kind: str) -> None:
        await asyncio.sleep(self.random.random() / 5)
        who = "server" if kind.startswith(("server", "full")) else self._one_of_the_clients()
        if kind.endswith("killed"):
            self.processes[who].kill()
            self.processes[who].wait()
            self._start(who)
        elif kind.endswith("stopped"):
            self.processes[who].send_signal(signal.SIGSTOP)
            await asyncio.sleep(self.random.random())
            self.processes[who].send_signal(signal.SIGCONT)
        elif kind == "cut":
            self.proxy.cut()
        elif kind == "slow":
            await self._slow_link()
        elif kind == "full disk":
            await self._fill_disk()
        else:
            await self._damage(BYTES[kind])

    async def _slow_link(self) -> None:
        self.proxy.pieces = 32
        for _ in range(20):
            self.proxy.freeze()
            await asyncio.sleep(0.03)
            self.proxy.thaw()
            await asyncio.sleep(0.005)
        self.proxy.pieces = 64 * 1024

    async def _fill_disk(self) -> None:
        """The server ends by itself, and continues when there is room."""
        (self.folder / FULL).touch()
        assert await self._ended("server") not in (0, -signal.SIGKILL)
        (self.folder / FULL).unlink()
        self._start("server")

    async def _damage(self, what: Callable[[bytes, Random], Iterable[bytes]]) -> None:
        """Damage one piece, the next in a direction that chance decides."""
        direction, made = self.random.choice(("up", "down")), asyncio.Event()

        def damage(flowing: str, data: bytes) -> Iterable[bytes]:
            if flowing != direction or made.is_set():
                return faithful(flowing, data)
            made.set()
            return what(data, self.random)

        self.proxy.damage = damage
        await self._until(lambda: made.is_set() or None, "bytes to damage")

    # ------------------------------------------------------------ what must hold

    def _checked(self, kinds: list[str]) -> dict[str, Any]:
        told = json.loads((self.folder / RESULT).read_text())
        again = replay(self.folder / "server", TASK)
        assert model_sha256(again.run.model) == told["sha256"], (
            f"{self.name}: another model than its journal's"
        )
        assert again.different == (), f"{self.name}: updates that their data do not make"
        assert again.run.counters == told["counters"]
        assert told["counters"]["taken"] <= again.retrained, f"{self.name}: an update was counted twice"
        known = {client: self._acknowledged(client) for client in range(CLIENTS)}
        assert sum(known.values()) > 0, "clients remember what was taken"
        lost = [client for client in known if known[client] > taken(again, client)]
        assert lost == [], f"{self.name}: acknowledged updates of clients {lost} are lost"
        counts = {name: told["counters"][name] for name in ("resynchronised", "malformed")}
        return {
            "pacing": self.name,
            "faults": dict.fromkeys(kinds, 1),
            "steps": told["steps"],
            "updates": again.retrained,
            **counts,
            "lost": 0,
            "different": 0,
        }

    def _acknowledged(self, client: int) -> int:
        """The last session that this client's disk says was taken."""
        participant = Participant(TASK, client, Owner())
        ClientMemory(self.folder / f"client-{client}").load(participant)
        return participant.memory.acknowledged


def taken(again: Replay, client: int) -> int:
    return again.coordinator.server.last_taken(client)
