"""A module made anew from a seed, with the data of one machine: what the two ends of a deployment have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy.typing as npt
import torch
from torch import nn

from fedpace.compute.protocol import Request
from fedpace.errors import require
from fedpace.tasks.flat import FlatModule
from fedpace.tasks.own import from_torch
from fedpace.tasks.statistics import keeps_statistics
from fedpace.tasks.sums import channels_of, tensors_with
from fedpace.vector import Vector

Maker = Callable[[], nn.Module]


class SeededModel:
    """What a server without data has: a model whose random beginning the seed decides."""

    def __init__(self, make: Maker) -> None:
        self._flat, self._make = FlatModule(seeded_module(make, 0)), make
        self.name, self.layout = type(self._flat.module).__name__, self._flat.layout
        self.normalisers = channels_of(self._flat)
        self.running_statistics = keeps_statistics(self._flat.module)

    def initial(self, seed: int) -> Vector:
        return FlatModule(seeded_module(self._make, seed)).values()

    def tensors_with(self, x: Vector, statistics: Vector | None) -> dict[str, npt.NDArray[Any]]:
        """What the module holds beside the parameters `x`, with these running statistics."""
        return tensors_with(self._flat, x, statistics)


class SeededTask(SeededModel):
    """A model with data; without test data nothing is evaluated."""

    def __init__(
        self, make: Maker, loss: Any, clients: list[Any], test: Any, metrics: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(make)
        held_out = clients[0] if test is None else test
        self._task = from_torch(seeded_module(make, 0), loss, clients, held_out, metrics)
        self.clients = len(clients)
        self.evaluate = None if test is None else self._task.evaluate
        self.evaluate_with, self.sums = self._task.evaluate_with, self._task.sums

    def samples(self, client: int) -> float:
        return self._task.samples(client)

    def solve(self, request: Request) -> Vector:
        return self._task.solve(request)

    def train_until(self, request: Request, stopped: Callable[[], bool]) -> tuple[Vector, int]:
        return self._task.train_until(request, stopped)


def seeded_module(make: Maker, seed: int) -> nn.Module:
    """The module, made with torch's generator seeded, and put back afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made = make()
    require(isinstance(made, nn.Module), "model()", type(made).__name__, "a torch.nn.Module")
    return made


def parted(data: Any) -> tuple[Any, Any]:
    """(train, test): a pair of data sets is both, a pair of tensors is one data set."""
    pair = isinstance(data, tuple | list) and len(data) == 2
    if pair and not any(isinstance(part, torch.Tensor) for part in data):
        return data[0], data[1]
    return data, None
