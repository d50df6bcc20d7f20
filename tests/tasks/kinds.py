"""Small tasks, one for every way of computing local steps, that hold the data of some clients or of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from fedpace.compute import Request
from fedpace.local import SGD
from fedpace.tasks import from_torch, quadratics
from fedpace.tasks.networks.text import CharGRU

CLASSES, SAMPLES, STEPS = 3, 23, 12  # 23 samples in fives: partial batches, and more than two passes

NETWORKS: dict[str, Any] = {
    "softmax": lambda: [nn.Flatten(), nn.Linear(72, CLASSES)],
    "mlp": lambda: [nn.Flatten(), nn.Linear(72, 7), nn.ReLU(), nn.Linear(7, CLASSES)],
    "cnn": lambda: [nn.Conv2d(2, 3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(12, CLASSES)],
    "tanh": lambda: [nn.Flatten(), nn.Linear(72, 5), nn.Tanh(), nn.Linear(5, CLASSES)],
    "softplus": lambda: [nn.Flatten(), nn.Linear(72, 5), nn.Softplus(), nn.Linear(5, CLASSES)],
    "dropout": lambda: [nn.Flatten(), nn.Linear(72, 7), nn.Dropout(0.5), nn.ReLU(), nn.Linear(7, CLASSES)],
    "batch norm": lambda: [nn.Flatten(), nn.Linear(72, 7), nn.BatchNorm1d(7), nn.Linear(7, CLASSES)],
    "augmented": lambda: [nn.Flatten(), nn.Linear(72, CLASSES)],
}
SOLVING = {
    "quadratics": None,
    "softmax": "compiled steps",
    "mlp": "compiled steps",
    "cnn": "unrolled convolutions",
    "tanh": "compiled steps",
    "dropout": "compiled steps",
    "softplus": "replayed steps",
    "batch norm": "replayed steps",
    "augmented": "autograd steps",
    "gru": "replayed steps",
}
RULES: dict[str, dict[str, Any]] = {
    "plain": {},
    "schedule": {"schedule": (1.0, 0.5, 0.25)},
    "momentum": {"momentum": 0.9},
    "Nesterov": {"momentum": 0.9, "nesterov": True},
    "decay": {"weight_decay": 0.1},
    "proximal": {"prox_mu": 2.0},
    "clipped": {"clip": 0.1},
    "corrected": {},
    "all": {"momentum": 0.5, "weight_decay": 0.1, "prox_mu": 0.3, "clip": 0.5, "schedule": (1.0, 0.1, 0.7)},
}


class Blurred(Dataset[Any]):
    """Random augmentation: a sample is another one every time it is taken."""

    def __init__(self, inputs: Tensor, targets: Tensor):
        self.inputs, self.targets = inputs, targets

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, k: int) -> tuple[Tensor, Tensor]:
        return self.inputs[k] + 0.1 * torch.randn(2, 6, 6), self.targets[k]


def task_of(kind: str, clients: Sequence[int]) -> Any:
    """The task with the data of these clients, in this order."""
    if kind == "quadratics":
        return quadratics(np.random.default_rng(1).normal(size=(5, 4))[list(clients)], initial=0.3)
    torch.manual_seed(2)
    network = CharGRU(CLASSES, 3, 4) if kind == "gru" else nn.Sequential(*NETWORKS[kind]())
    data = [samples(kind, client) for client in clients]
    task = from_torch(network, nn.functional.cross_entropy, data, samples("gru" if kind == "gru" else "", 99))
    assert task.solving == SOLVING[kind]
    return task


def samples(kind: str, client: int) -> Any:
    draws = torch.Generator().manual_seed(client)
    if kind == "gru":
        codes = torch.randint(0, CLASSES, (SAMPLES, 7), generator=draws)
        return codes[:, :-1], codes[:, 1:]
    inputs = torch.randn(SAMPLES, 2, 6, 6, generator=draws)
    targets = torch.randperm(SAMPLES, generator=draws) % CLASSES
    return Blurred(inputs, targets) if kind == "augmented" else (inputs, targets)


def ask(task: Any, rule: str, client: int = 3, data: int = 3, batch_size: int | None = 5) -> Request:
    start = task.initial(0)
    correction = np.linspace(-0.1, 0.1, start.size) if rule in ("corrected", "all") else None
    local = SGD(0.1, steps=STEPS, batch_size=batch_size, **RULES[rule])
    return Request(client, 2, start, 0, local, STEPS, seed=5, correction=correction, data=data)
