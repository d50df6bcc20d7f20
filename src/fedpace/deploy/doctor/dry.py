"""One dry session: a server and clients in this process take one step, in a folder that is thrown away."""

from __future__ import annotations

import asyncio
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from fedpace.algorithm import Algorithm
from fedpace.compute.protocol import Request
from fedpace.deploy.doctor.diagnosis import FAILED, SKIPPED, Diagnosis, checked, good
from fedpace.deploy.local import LocalNetwork
from fedpace.deploy.owner import Owner
from fedpace.deploy.running import join_async, serve_async
from fedpace.local import Stopped
from fedpace.vector import Vector

MOST_CLIENTS = 32
WITHIN_S = 300.0

Loaded = tuple[Any, int]  # a task, and where the client's samples are in it


class OneAtATime:
    """A task of one client, for many: its data is each one's, and they take turns, since a task has one module."""

    def __init__(self, task: Any, data: int) -> None:
        self.name, self.layout, self.initial = task.name, task.layout, task.initial
        self.normalisers = getattr(task, "normalisers", {})
        self._task, self._data, self._turn = task, data, threading.Lock()

    def samples(self, client: int) -> float:
        samples: float = self._task.samples(self._data)
        return samples

    def solve(self, request: Request) -> Vector:
        with self._turn:
            delta: Vector = self._task.solve(request)
            return delta

    def train_until(self, request: Request, stopped: Stopped) -> tuple[Vector, int]:
        if not hasattr(self._task, "train_until"):
            return self.solve(request), request.steps
        with self._turn:
            trained: tuple[Vector, int] = self._task.train_until(request, stopped)
            return trained

    def sums(self, x: Vector, client: int) -> Vector | None:
        with self._turn:
            added: Vector | None = self._task.sums(x, self._data)
            return added


def data_and_session(
    look: Callable[[list[Loaded]], Diagnosis],
    train: Callable[[Any, int], Diagnosis],
    *,
    advice: str,
    without: str,
) -> Iterator[Diagnosis]:
    """`look` at the data, which adds the task that it has loaded; then `train` on it, if there is one."""
    made: list[Loaded] = []
    yield checked("data", lambda: look(made), advice)
    if made:
        yield checked("session", lambda: train(*made[0]), advice)
    else:
        yield Diagnosis("session", SKIPPED, without)


def dry_session(
    algorithm: Algorithm,
    task: Any,
    data: int,
    clients: int,
    rules: Mapping[str, Callable[..., Any]],
    within_s: float = WITHIN_S,
) -> Diagnosis:
    """The algorithm's first step, by clients that all have this data."""
    clients = min(clients, MOST_CLIENTS)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fedpace-doctor-") as folder:
        taken = asyncio.run(
            _step(algorithm, OneAtATime(task, data), data, clients, rules, Path(folder), within_s)
        )
    if taken is None:
        advice = "see what client.py does, and whether so many clients are enough for a step"
        return Diagnosis("session", FAILED, f"no step within {within_s:g} s by {clients} clients", advice)
    updates = f"{taken} update{'s' * (taken != 1)}"
    took_s = time.monotonic() - began
    return good("session", f"{algorithm.name or 'custom'}: one step of {updates} in {took_s:.1f} s")


async def _step(
    algorithm: Algorithm,
    task: OneAtATime,
    data: int,
    clients: int,
    rules: Mapping[str, Callable[..., Any]],
    folder: Path,
    within_s: float,
) -> int | None:
    """Updates in the first step; None if it was not taken in time."""
    network, samples = LocalNetwork(), [task.samples(data)] * clients
    options: dict[str, Any] = {"clients": clients, "rounds": 1, "samples": samples, "wait_for": clients}
    serving = asyncio.ensure_future(
        serve_async(
            algorithm,
            task,
            network.server,
            folder,
            evaluate="clients",
            evaluate_every=None,
            rules=rules,
            **options,
        )
    )
    owner = Owner(rules=rules)
    joined = [
        asyncio.ensure_future(join_async(task, network.client(number), data=data, owner=owner))
        for number in range(clients)
    ]
    try:
        done, _ = await asyncio.wait(
            [serving, *joined], timeout=within_s, return_when=asyncio.FIRST_EXCEPTION
        )
        for each in done:
            each.result()
        return len((await serving).history[0].clients) if serving in done else None
    finally:
        for each in (serving, *joined):
            each.cancel()
        await asyncio.gather(serving, *joined, return_exceptions=True)
