"""What the scripts share: the workloads, on noise (a step takes as long), and the way to answer."""

from __future__ import annotations

import importlib
import json
import os
import resource
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

CLIENTS = {"W1": 1000, "W2": 100, "W3": 100, "W4": 100, "W5": 20, "W6": 20, "W7": 20}
SAMPLES = {"W1": 60, "W2": 600, "W3": 600, "W4": 600, "W5": 500, "W6": 200, "W7": 200}
STEPS = {"W1": 6, "W2": 50, "W3": 50, "W4": 50, "W5": 50, "W6": 20, "W7": 20}
SHAPES = {"W5": (30,), "W7": (3, 32, 32)}  # of a sample; the others are 28x28 images, and W6 is text
CHARACTERS = 80
OWN = ("W5", "W6", "W7")
BATCH, PER_ROUND, CONCURRENCY, LR = 10, 10, 20, 0.05


@cache
def noise(count: int, shape: tuple[int, ...] = (1, 28, 28)) -> Any:
    return np.random.default_rng(0).normal(size=(count, *shape)).astype(np.float32)


@cache
def data(workload: str, client: int) -> tuple[Any, Any]:
    """One client's images and labels, quickly made: some frameworks do it anew in every process."""
    count = SAMPLES[workload]
    if workload == "W6":
        codes = np.random.default_rng(client).integers(0, CHARACTERS, (count, 33))
        return codes[:, :-1].copy(), codes[:, 1:].copy()
    classes = 2 if workload == "W5" else 10
    images = noise(count, SHAPES.get(workload, (1, 28, 28)))
    return images * np.float32(1 + client / 1000), (np.arange(count) % classes).astype(np.int64)


def one_epoch(workload: str, client: int) -> tuple[Any, Any]:
    """As many of them as the steps take, in torch: for frameworks that count in epochs."""
    import torch

    images, labels = data(workload, client)
    count = STEPS[workload] * BATCH
    return torch.from_numpy(images[:count]), torch.from_numpy(labels[:count])


def network(workload: str) -> Any:
    """The network in torch."""
    from torch import nn

    if workload in OWN:
        modules: Any = importlib.import_module("own_modules")
        return modules.MODULES[workload]()
    if workload == "W1":
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
    if workload in ("W3", "W4"):
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, 10))
    first = nn.Conv2d(1, 32, 5), nn.MaxPool2d(2), nn.ReLU()
    second = nn.Conv2d(32, 64, 5), nn.MaxPool2d(2), nn.ReLU()
    return nn.Sequential(*first, *second, nn.Flatten(), nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 10))


def threads(workload: str) -> int:
    """Torch's, where clients are trained one after another: on two cores, one was faster but for the CNN."""
    return (os.cpu_count() or 1) if workload == "W2" else 1


def serve(prepare: Callable[[], Callable[[int], float]]) -> None:
    """Get ready, then answer every number of rounds with the seconds they took."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # frameworks talk, their processes too; only answers go to standard output
    seconds = prepare()
    seconds(1)
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        took = seconds(int(line))
        peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(json.dumps({"seconds": took, "peak_bytes": peak}), file=answers, flush=True)
