"""The networks, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from fedpace.errors import ConfigError
from fedpace.random import stream
from fedpace.tasks.networks.dense import Shape, mlp, softmax

Builder = Callable[..., nn.Module]

IMAGE_NETWORKS: dict[str, Builder] = {"softmax": softmax, "mlp": mlp}


def build(model: str, shape: Shape, classes: int, seed: int) -> nn.Module:
    """The network `model` (`mlp`, or `mlp:64` with its size) for inputs of `shape`, initialised by `seed`."""
    builder, options = _builder(model)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(stream(seed, "init").integers(2**63)))
        return builder(shape, classes, *options)


def _builder(model: str) -> tuple[Builder, list[Any]]:
    name, _, size = model.partition(":")
    if name not in IMAGE_NETWORKS or (size and not size.isdecimal()):
        raise ConfigError(f"model must be one of {', '.join(IMAGE_NETWORKS)}; got {model!r}")
    return IMAGE_NETWORKS[name], [int(size)] if size else []
