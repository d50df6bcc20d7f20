"""BatchNorm's running statistics: never part of the vector that travels, renewed before an evaluation.

Training normalises by the current batch and never reads the running statistics, so local training does not
need them, and no server rule (momentum, calibration, compression) can spoil them: a variance that went
through Adam or CA2FL may come out negative. They are a function of the model instead. Before an evaluation
every client of a fixed panel passes some of its samples through the model, and the plain mean over the
panel of the batch means and (unbiased) variances becomes the running statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from fedpace.errors import ConfigError
from fedpace.tasks.examples import Examples
from fedpace.tasks.flat import FlatModule
from fedpace.tasks.objective import Objective

CLIENTS, SAMPLES = 64, 32  # at most this many clients, with at most this many samples each

Norm = nn.modules.batchnorm._NormBase
Batch = nn.modules.batchnorm._BatchNorm


def keeps_statistics(module: nn.Module) -> bool:
    """Whether evaluation needs averages of raw data beside the parameters."""
    return any(isinstance(part, Norm) and part.running_mean is not None for part in module.modules())


def normalisers(module: nn.Module) -> list[Norm]:
    """The layers whose running statistics training would have updated."""
    return [
        part
        for part in module.modules()
        if isinstance(part, Norm) and part.running_mean is not None and part.training
    ]


def batch_norm_parameters(flat: FlatModule) -> tuple[str, ...]:
    """The names of weights and biases of BatchNorm layers, as far as they are trained."""
    layers = {name for name, part in flat.module.named_modules() if isinstance(part, Batch)}
    return tuple(name for name in flat.layout.names if name.rpartition(".")[0] in layers)


def panel(sizes: Sequence[int]) -> list[int]:
    """Evenly spaced clients among those with at least two samples."""
    able = [client for client, size in enumerate(sizes) if size >= 2]
    if not able:
        raise ConfigError("BatchNorm must have a client with two samples or more; every client has one")
    picks = np.linspace(0, len(able) - 1, min(CLIENTS, len(able))).round().astype(int)
    return [able[k] for k in picks]


Statistics = dict[str, Tensor]


def taken(layers: list[Norm]) -> list[Statistics]:
    """Copies of the statistics that `layers` have now."""
    return [{name: buffer.clone() for name, buffer in layer.named_buffers()} for layer in layers]


@torch.no_grad()
def put(layers: list[Norm], statistics: list[Statistics]) -> None:
    """Give `layers` these statistics."""
    for layer, own in zip(layers, statistics, strict=True):
        for name, buffer in layer.named_buffers():
            buffer.copy_(own[name])


@torch.no_grad()
def renew(
    module: nn.Module,
    layers: list[Norm],
    objective: Objective,
    sizes: Sequence[int],
    data: Callable[[int], Examples],
) -> None:
    """Set the running statistics of `layers` for the parameters that `module` has now."""
    momenta = [layer.momentum for layer in layers]
    module.eval()
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None  # the cumulative mean over batches
        layer.train()
    for client in panel(sizes):
        inputs, _ = data(client).take(np.arange(min(SAMPLES, sizes[client])))
        objective.call(module, inputs)
    for layer, momentum in zip(layers, momenta, strict=True):
        layer.momentum = momentum
        layer.eval()
