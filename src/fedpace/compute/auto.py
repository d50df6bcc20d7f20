"""Which engine, from task, model and local rule alone, so that a seed still decides every bit.

`inline` and `pool` are bit-identical, so between them it is only a question of time: a session must be long
enough to be worth its way to a worker and back. `vectorised` rounds differently and is chosen for small models on a
GPU, on a CPU only where `fedpace bench tune` has measured and pinned it.
"""

from __future__ import annotations

import numpy as np

from fedpace.compute import pins
from fedpace.compute.pins import Pin
from fedpace.compute.protocol import Task, on_gpu
from fedpace.local import SGD

SMALL = 1_000_000  # parameters up to which one client cannot keep a GPU busy
WORTH_S = 1e-3  # about ten times what a message to a worker and back costs
FLOPS = 3e10  # of one core, roughly


def choose(task: Task, workers: int, local: SGD | None) -> Pin:
    """The pinned choice, or the pool if there are workers and work for them."""
    pinned = pins.find(task, local) if isinstance(local, SGD) else None
    if pinned is not None:
        return pinned
    if on_gpu(task) and task.layout.size <= SMALL and getattr(task, "lanes", 1) > 1:
        return Pin("vectorised", 1)
    worth = workers > 1 and solve_s(task, local) >= WORTH_S
    return Pin("pool", workers) if worth else Pin("inline", 1)


def solve_s(task: Task, local: SGD | None) -> float:
    """Rough seconds of a session's local training: what calls cost, and six operations per parameter and sample."""
    if local is None:
        return 0.0
    clients = range(0, task.clients, -(-task.clients // 100))
    samples = float(np.mean([task.samples(client) for client in clients]))
    batch = samples if local.batch_size is None else min(samples, local.batch_size)
    step_s: float = getattr(task, "call_s", 0.0) + 6 * task.layout.size * batch / FLOPS
    return expected_steps(local, samples) * step_s


def expected_steps(local: SGD, samples: float) -> float:
    """Local steps of a session, on average; for a time budget, which depends on devices, a hundred."""
    if local.steps is not None:
        rows = local.steps if isinstance(local.steps, tuple) else (local.steps,)
        return float(np.mean([np.mean(row) for row in rows]))
    if local.epochs is not None:
        return float(np.mean(local.epochs)) * local.batches(samples)
    return 100.0
