"""Local training on a device that does not exist: shapes, devices and transfers are real, numbers are not.

Run as a process of its own (`test_device.py` does): a torch whose autograd has worked on a made-up device does not end
cleanly. Prints what was counted, as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from fedpace.compute.device import DATA_SHARE, Accelerator, Device, each
from fedpace.compute.protocol import Request
from fedpace.local import SGD, Torch
from fedpace.tasks.examples import Tensors
from fedpace.tasks.objective import CLASSIFICATION, Objective
from fedpace.tasks.torch_task import TorchTask
from fedpace.vector import freeze

STEPS, BATCH, SAMPLES = 3, 4, 12
LOCAL = SGD(0.1, steps=1, batch_size=BATCH), Torch("torch.optim.Adam", steps=1, batch_size=BATCH, lr=0.1)


class Pretended(Accelerator):
    """A device registered from Python; counts what crosses."""

    def __init__(self, room: int = 1 << 30, precision: str = "float32") -> None:
        super().__init__("pretended:0", precision)
        self.room, self.crossed = room, Counter[str]()  # bytes for data

    def place(self, tensor: torch.Tensor) -> torch.Tensor:
        self.crossed["up"] += 1
        return torch.empty(tensor.shape, dtype=tensor.dtype, device=self.torch)

    def download(self, tensor: torch.Tensor) -> np.ndarray:
        assert tensor.device == self.torch
        self.crossed["down"] += 1
        return np.zeros(tuple(tensor.shape), np.float32)

    def to_host(self, batch: Any) -> Any:
        def brought(tensor: torch.Tensor) -> torch.Tensor:
            self.crossed["host"] += 1
            return torch.empty(tensor.shape, dtype=tensor.dtype)

        return each(batch, brought)

    def number(self, tensor: torch.Tensor) -> float:
        self.crossed["number"] += 1
        return 1.0

    def free_bytes(self) -> int:
        return int(self.room / DATA_SHARE)

    @contextmanager
    def seeded(self, seed: int) -> Iterator[None]:
        with Device.seeded(self, seed):
            yield

    @contextmanager
    def session(self, what: str, lower: str = "") -> Iterator[None]:
        with Device.session(self, what, lower):
            yield

    def counted(self) -> dict[str, int]:
        since, self.crossed = dict(self.crossed), Counter()
        return since


class Stray(nn.Module):
    """Makes a tensor in main memory on the way."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.inner(x) + torch.ones(3)
        return y


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(8, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
        self.out = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.out(self.layer(self.embedding(x)).mean(1))
        return y


def images() -> nn.Module:
    head = nn.Conv2d(2, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.ReLU(), nn.Dropout(0.5)
    return nn.Sequential(*head, nn.Flatten(), nn.Linear(4 * 16, 3))


def dense() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 5), nn.Tanh(), nn.Linear(5, 3))


SHAPES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "dense": (dense, (8,)),
    "images": (images, (2, 4, 4)),
    "attention": (Attention, (6,)),
    "stray": (Stray, (8,)),
}


def task(kind: str, device: Device, objective: Objective = CLASSIFICATION) -> TorchTask:
    make, shape = SHAPES[kind]
    whole = kind == "attention"
    inputs = torch.zeros(SAMPLES, *shape, dtype=torch.int64 if whole else torch.float32)
    data = [Tensors(inputs, torch.zeros(SAMPLES, dtype=torch.int64)) for _ in range(3)]
    return TorchTask(kind, make(), objective, [SAMPLES] * 3, data.__getitem__, data[0], device)


def request(start: np.ndarray, client: int, session: int, **rule: Any) -> Request:
    local = SGD(0.1, steps=STEPS, batch_size=BATCH, **rule)
    return Request(client, session, start, 0, local, STEPS, seed=0, data=client)


def sessions(kind: str, room: int = 1 << 30, precision: str = "float32", **rule: Any) -> list[dict[str, int]]:
    """What crosses in four sessions: two clients from one model, the first again, and again from a new model."""
    device = Pretended(room, precision)
    trained = task(kind, device)
    device.counted()
    first, second = versions(trained, 2)
    plan = ((first, 0), (first, 1), (first, 0), (second, 0))
    found = []
    for session, (start, client) in enumerate(plan):
        trained.solve(request(start, client, session, **rule))
        found.append(device.counted())
    return found


def versions(trained: TorchTask, count: int) -> list[np.ndarray]:
    return [freeze(np.zeros(trained.layout.size, np.float32)) for _ in range(count)]


def in_flight(count: int, room: int = 1 << 30) -> list[dict[str, int]]:
    """Sessions from several versions in turn, twice, as asynchronous algorithms have them; data is there before."""
    device = Pretended(room)
    trained = task("dense", device)
    models = versions(trained, count)
    trained.solve(request(models[0], 0, 0))
    device.counted()
    found = []
    for session in range(1, 2 * count + 1):
        trained.solve(request(models[session % count], 0, session))
        found.append(device.counted())
    return found


def forgotten() -> list[int]:
    """Models on the device: of three versions, and of a new one once nobody has those."""
    device = Pretended()
    trained = task("dense", device)
    models = versions(trained, 3)
    for session in range(3):
        trained.solve(request(models[session], 0, session))
    held = len(device._models)
    models[:] = versions(trained, 1)
    trained.solve(request(models[0], 0, 3))
    return [held, len(device._models)]


def written_to() -> list[dict[str, int]]:
    """Two evaluations of one array that may have been written to in between."""
    device = Pretended()
    x = np.zeros(5, np.float32)
    found = []
    for _ in range(2):
        device.model(x)
        found.append(device.counted())
    return found


def lanes() -> list[dict[str, int]]:
    """Three clients as one computation, twice."""
    device = Pretended()
    trained = task("dense", device)
    [start] = versions(trained, 1)
    assert trained.lanes > 1
    device.counted()
    found = []
    for session in range(2):
        trained.solve_together([request(start, client, session) for client in range(3)])
        found.append(device.counted())
    return found


def loss_elsewhere(local: Any) -> None:
    """One step with a loss that ends in main memory."""

    def loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(output, target).cpu()

    trained = task("dense", Pretended(), Objective(loss, {}))
    trained.solve(Request(0, 0, versions(trained, 1)[0], 0, local, 1, seed=0, data=0))


def evaluations(objective: Objective = CLASSIFICATION) -> list[dict[str, int]]:
    """One model, twice."""
    device = Pretended()
    trained = task("dense", device, objective)
    [x] = versions(trained, 1)
    device.counted()
    found = []
    for _ in range(2):
        assert trained.evaluate(x).keys() >= {"loss", "accuracy"}
        found.append(device.counted())
    return found


def refused(function: Callable[[], object]) -> str:
    try:
        function()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def foreign_index() -> None:
    device = Pretended()
    device.take(torch.empty(4, device=device.torch), torch.zeros(2, dtype=torch.int64))


def main() -> None:
    _setup_privateuseone_for_python_backend("pretended")
    vars(torch)["pretended"].get_amp_supported_dtype = lambda: [torch.bfloat16]
    casts = torch.library.Library("_", "IMPL")  # a made-up device has no casts of its own
    casts.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    rules: dict[str, dict[str, Any]] = {"momentum": {"momentum": 0.9}, "clip": {"clip": 1.0, "prox_mu": 0.1}}
    with FakeTensorMode(allow_non_fake_inputs=True):
        found = {
            **{kind: sessions(kind) for kind in ("dense", "images", "attention")},
            **{name: sessions("dense", **rule) for name, rule in rules.items()},
            "no room": sessions("dense", room=0),
            "room for one": sessions("dense", room=SAMPLES * (8 * 4 + 8)),
            "three versions": in_flight(3),
            "three versions, no room": in_flight(3, room=0),
            "forgotten": forgotten(),
            "written to": written_to(),
            "loss elsewhere": [refused(partial(loss_elsewhere, local)) for local in LOCAL],
            "evaluation": evaluations(),
            "whole metric": evaluations(replace(CLASSIFICATION, whole={"one": lambda output, target: 1.0})),
            "bf16": sessions("dense", precision="bf16"),
            "stray": refused(lambda: sessions("stray")),
            "index": refused(foreign_index),
            "lanes": lanes(),  # the last: after it torch crashes at times on fake tensors
        }
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)
