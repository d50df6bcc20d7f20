"""The processes of a fault campaign: python -m tests.deploy.party server|clients FOLDER ALGORITHM PORT [NUMBER ...]."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

from tests.deploy.deployed import CLIENTS, SAMPLES, SEED, TASK, made
from tests.deploy.pairs import quick_client, small

from fedpace import Algorithm
from fedpace.compute.protocol import Request
from fedpace.deploy import JournalLimits, join_async, serve
from fedpace.deploy.expectations import Patience
from fedpace.deploy.journal.files import DiskFiles
from fedpace.deploy.websocket.server import WebsocketServer
from fedpace.local import Stopped
from fedpace.server import Step
from fedpace.vector import Vector

FULL, PROGRESS, RESULT = "disk-is-full", "progress", "result.json"
ENDLESS = 10**6  # server steps: the campaign ends the run
STEP_S = 0.005
LIMITS = small(
    heartbeat_s=1.0,
    resume_seconds=20.0,
    opening_seconds=5.0,
    closing_seconds=2.0,
    joins_a_minute=10**6,
    takeovers_a_minute=10**9,
)
PATIENCE = Patience(least_s=5.0, first_s=20.0, grace_s=5.0)


def algorithm(name: str) -> Algorithm:
    return made(name, server_period=0.1)


class Slowly:
    """The task, where a local step takes a moment: faults meet clients at work."""

    name, layout, clients = TASK.name, TASK.layout, TASK.clients
    initial, samples, solve = TASK.initial, TASK.samples, TASK.solve

    def train_until(self, request: Request, stopped: Stopped) -> tuple[Vector, int]:
        def after_a_moment() -> bool:
            time.sleep(STEP_S)
            return stopped()

        return TASK.train_until(request, after_a_moment)


def server(folder: Path, name: str, port: int) -> None:
    def told(step: Step, _: object) -> None:
        (folder / PROGRESS).write_text(str(step.version))

    async def listen() -> WebsocketServer:
        transport = WebsocketServer(CLIENTS, identities=None, limits=LIMITS)
        await transport.start("127.0.0.1", port)
        return transport

    measured = DiskFiles.free_bytes
    DiskFiles.free_bytes = lambda self: 0 if (folder / FULL).exists() else measured(self)  # type: ignore[method-assign]
    run = serve(
        algorithm(name),
        TASK,
        listen,
        folder / "server",
        clients=CLIENTS,
        rounds=ENDLESS,
        seed=SEED,
        samples=SAMPLES,
        wait_for=CLIENTS,
        evaluate_every=None,
        journal=JournalLimits(every_s=0.5, reserve_bytes=1),
        patience=PATIENCE,
        told=[told],
    )
    result = {"steps": len(run.history), "sha256": run.summary["model_sha256"], "counters": run.counters}
    (folder / RESULT).write_text(json.dumps(result))


async def clients(folder: Path, port: int, numbers: list[int]) -> None:
    async def one(number: int) -> None:
        transport = quick_client(number, port, limits=LIMITS)
        transport.start()
        await join_async(Slowly(), transport, data=number, folder=folder / f"client-{number}")

    await asyncio.gather(*map(one, numbers))


if __name__ == "__main__":
    role, place, chosen, at, *rest = sys.argv[1:]
    if role == "server":
        server(Path(place), chosen, int(at))
    else:
        asyncio.run(clients(Path(place), int(at), list(map(int, rest))))
