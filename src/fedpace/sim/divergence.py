"""Which learning rate made a run diverge: clients are trained alone, without the server's steps, and watched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from fedpace.algorithm import Algorithm
from fedpace.compute.inline import solve
from fedpace.compute.protocol import Request, Task
from fedpace.server_opt import Momentum
from fedpace.vector import Vector, freeze, is_finite

CLIENTS = 2  # of those that it happened to
SESSIONS = 5  # one after another, each from the end of the one before
GROWTH = 100.0  # local training that moves this many times as far as at first is on its way to infinity


def advice(algorithm: Algorithm, task: Task, seed: int, clients: Sequence[int]) -> str:
    """What to lower: client_lr if local training alone diverges, else what the server adds to it."""
    rate = f"client_lr ({algorithm.local.lr:g})"
    if any(_diverges(_alone(algorithm, task, seed, client)) for client in clients[:CLIENTS]):
        return f"lower {rate}: local training alone diverges"
    server = getattr(algorithm.server_opt, "lr", None)
    if server is None or (isinstance(algorithm.server_opt, Momentum) and server <= 1):
        return f"lower {rate}"
    return f"lower server_lr ({server:g}): local training alone stays finite"


def _diverges(moves: Iterator[float]) -> bool:
    first = next(moves)
    return not np.isfinite(first) or any(not move <= GROWTH * first for move in moves)


def _alone(algorithm: Algorithm, task: Task, seed: int, client: int) -> Iterator[float]:
    """How far each of some sessions moves the model; infinite where it is not finite any more."""
    x = task.initial(seed)
    samples, rng = task.samples(client), np.random.default_rng(0)
    steps = algorithm.local.work(client, 0, samples, 1.0, rng)
    for session in range(1, SESSIONS + 1):
        request = Request(client, session, x, -1, algorithm.local, steps, seed, data=client)
        with np.errstate(all="ignore"):
            delta = solve(task, request)[: x.size]
            x = freeze(x + delta)
        yield _length(delta) if is_finite(x) else np.inf


def _length(v: Vector) -> float:
    return float(np.linalg.norm(v.astype(np.float64)))
