"""Modules as a user brings them, on noise: what `from_torch` makes of them is measured."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from fedpace.compute.device import Device
from fedpace.tasks import OwnTask, from_torch
from fedpace.tasks.networks.resnet import ResNet, group_norm, resnet18_gn
from fedpace.tasks.networks.text import transformer
from fedpace.tasks.seeded import seeded_module

CHARACTERS, IMAGE = 80, (3, 32, 32)


def _tanh() -> nn.Module:
    return nn.Sequential(nn.Linear(30, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2))


def _features(count: int, draws: torch.Generator) -> tuple[Tensor, Tensor]:
    return torch.randn(count, 30, generator=draws), torch.arange(count) % 2


def _text(count: int, draws: torch.Generator) -> tuple[Tensor, Tensor]:
    codes = torch.randint(0, CHARACTERS, (count, 33), generator=draws)
    return codes[:, :-1], codes[:, 1:]


def _images(count: int, draws: torch.Generator) -> tuple[Tensor, Tensor]:
    return torch.randn(count, *IMAGE, generator=draws), torch.arange(count) % 10


Noise = Callable[[int, torch.Generator], tuple[Tensor, Tensor]]
MODULES: dict[str, tuple[Callable[[], nn.Module], Noise, int]] = {  # and samples: one epoch in batches of ten
    "tanh": (_tanh, _features, 500),
    "transformer": (lambda: transformer((32,), CHARACTERS), _text, 200),
    "resnet": (lambda: ResNet(IMAGE, 10, (16, 32, 64), 1, group_norm, projected=True), _images, 200),
    "resnet18": (lambda: resnet18_gn(IMAGE, 10), _images, 200),
}


def own_task(name: str, clients: int, device: str | Device = "cpu") -> OwnTask:
    """The module of that name, and clients with one epoch's worth of samples each."""
    make, noise, samples = MODULES[name]
    draws = torch.Generator().manual_seed(0)
    module = seeded_module(make, 0)
    data = [noise(samples, draws) for _ in range(clients)]
    return from_torch(module, nn.functional.cross_entropy, data, data[0], device=device)
