"""Real runs on this machine with delays that are known, and what is predicted of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from tests.deploy.deployed import CLIENTS
from tests.deploy.prediction.delays import slow_link
from tests.deploy.prediction.test_prediction import CLIENT, RUN

from deploy.pairs import run as run_bounded
from fedpace import Algorithm
from fedpace.compute.protocol import Request
from fedpace.deploy import join_async, serve_async
from fedpace.deploy.prediction.comparing import ComparedQuantity
from fedpace.deploy.prediction.measured import MeasuredPopulation, measured
from fedpace.deploy.prediction.predicting import predict
from fedpace.deploy.prediction.sessions import observe
from fedpace.deploy.projects.program import Program
from fedpace.deploy.projects.serving import StudyFolder
from fedpace.deploy.websocket.client import WebsocketClient
from fedpace.deploy.websocket.server import WebsocketServer
from fedpace.local import Stopped
from fedpace.vector import Vector

STEP_S = tuple(0.01 * (number + 1) for number in range(CLIENTS))  # of a local step, by client
LATENCY_S, BYTES_PER_S = (
    0.01,
    50_000.0,
)  # of the last client's link, and of all: the one before has a longer one


class Slowed:
    """A task whose local steps take so much longer."""

    def __init__(self, task: Any, step_s: float) -> None:
        self._task, self._step_s = task, step_s

    def __getattr__(self, name: str) -> Any:
        return getattr(self._task, name)

    def train_until(self, request: Request, stopped: Stopped) -> tuple[Vector, int]:
        def stopped_or_late() -> bool:
            """Asked before each step; a step under way is finished, and counts, as in any task."""
            over = stopped()
            time.sleep(0.0 if over else self._step_s)
            return over

        found: tuple[Vector, int] = self._task.train_until(request, stopped_or_late)
        return found


async def real_run(
    algorithm: Algorithm, program: Program, place: Path, rounds: int, seed: int, step_s: Sequence[float]
) -> None:
    """Six clients over sockets, each with a speed and a link of its own.

    Each has its own task, as each machine would: local training in a thread writes to what the task holds.
    """
    task = program.whole_task(CLIENTS)
    server = WebsocketServer(CLIENTS, identities=None)
    await server.start("127.0.0.1", 0)
    async with AsyncExitStack() as links:
        serving = asyncio.ensure_future(
            serve_async(
                algorithm, task, server, place, clients=CLIENTS, rounds=rounds, seed=seed, wait_for=CLIENTS
            )
        )
        joined = []
        for number in range(CLIENTS):
            link = await links.enter_async_context(
                slow_link(server.address[1], LATENCY_S * (CLIENTS - number), BYTES_PER_S)
            )
            end = WebsocketClient(
                number, "127.0.0.1", link.port, context=None, rng=np.random.default_rng(number)
            )
            end.start()
            slowed: Any = Slowed(program.whole_task(CLIENTS), step_s[number])
            joined.append(asyncio.ensure_future(join_async(slowed, end, data=number)))
        await serving
        await asyncio.gather(*joined)


class RealStudy:
    """A folder whose runs are real ones of this algorithm."""

    def __init__(
        self,
        place: Path,
        algorithm: Algorithm,
        rounds: int = 40,
        seed: int = 5,
        *,
        client: str = CLIENT,
        step_s: Sequence[float] = STEP_S,
    ) -> None:
        self.place, self.algorithm, self.rounds, self.seed = place, algorithm, rounds, seed
        self.step_s = step_s
        (place / "runs").mkdir(parents=True)
        (place / "client.py").write_text(client, encoding="utf-8")
        self.program = Program(place / "client.py")
        text = RUN.format(rounds=rounds).replace("seed = 5", f"seed = {seed}")
        (place / "run.toml").write_text(text, encoding="utf-8")

    def run(self) -> MeasuredPopulation:
        folder = self.place / "runs" / "night"
        run_bounded(real_run(self.algorithm, self.program, folder, self.rounds, self.seed, self.step_s))
        return measured(observe(folder), "night")

    def predicted(
        self, devices: MeasuredPopulation, real: MeasuredPopulation, repeats: int
    ) -> dict[str, ComparedQuantity]:
        """By quantity, without the largest staleness: one late update makes it."""
        study = replace(StudyFolder.read(self.place), algorithm=self.algorithm)
        found = predict(study, devices, self.program, real, repeats=repeats).rows()
        return {row.name: row for row in found if not row.name.startswith("largest staleness")}


def off(row: ComparedQuantity) -> float:
    assert row.difference is not None, row
    return row.difference
