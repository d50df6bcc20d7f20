"""What a machine adds up of its own samples for running statistics, and a module with statistics made of such sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from fedpace.compute.device import Device, host_tensor, wide
from fedpace.errors import require
from fedpace.tasks.flat import FlatModule
from fedpace.tasks.objective import Objective
from fedpace.tasks.pooling import named, statistics_size
from fedpace.tasks.statistics import Norm, normalisers
from fedpace.vector import Vector


def channels_of(flat: FlatModule) -> dict[str, int]:
    """The normalisers that training would update, by name, and their channels."""
    flat.reset(flat.values())
    wanted = set(map(id, normalisers(flat.module)))
    return {name: _width(part) for name, part in flat.module.named_modules() if id(part) in wanted}


@torch.no_grad()
def sums_over(module: nn.Module, objective: Objective, inputs: Any, device: Device) -> Vector:
    """Count, sum and sum of squares of what reaches every normaliser, each normalising by this batch."""
    layers = normalisers(module)
    totals = [np.zeros(1 + 2 * _width(layer)) for layer in layers]
    module.eval()
    hooks = [
        layer.register_forward_pre_hook(_adding_to(total, device))
        for layer, total in zip(layers, totals, strict=True)
    ]
    try:
        for layer in layers:
            layer.train()
        objective.call(module, inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return np.concatenate(totals) if totals else np.empty(0)


@torch.no_grad()
def put_statistics(flat: FlatModule, x: Vector, statistics: Vector | None) -> nn.Module:
    """The module with the parameters `x` and these statistics, in evaluation mode; None: as it came."""
    channels = channels_of(flat)
    flat.reset(np.asarray(x, flat.dtype))
    if statistics is not None:
        size = statistics_size(channels)
        require(statistics.size == size, "running statistics", statistics.size, f"{size} values")
        buffers = dict(flat.module.named_buffers())
        for name, values in named(statistics, channels, np.float64).items():
            buffers[name].copy_(flat.device.place(host_tensor(values).type(buffers[name].dtype)))
    return flat.module.eval()


def tensors_with(flat: FlatModule, x: Vector, statistics: Vector | None) -> dict[str, npt.NDArray[Any]]:
    """What that module holds beside the parameters, by name."""
    put_statistics(flat, x, statistics)
    return flat.others()


def _width(layer: nn.Module) -> int:
    assert isinstance(layer, Norm) and layer.running_mean is not None
    return layer.running_mean.numel()


def _adding_to(total: Vector, device: Device) -> Any:
    def add(layer: nn.Module, given: tuple[Tensor, ...]) -> None:
        rows = wide(given[0]).transpose(0, 1).flatten(1)  # one per channel
        total[0] += rows.shape[1]
        total[1:] += device.download(torch.cat([rows.sum(1), rows.square().sum(1)]))

    return add
