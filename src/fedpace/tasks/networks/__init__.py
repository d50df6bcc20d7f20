"""The networks, by name."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping

import torch
from torch import nn

from fedpace.errors import ConfigError, unknown
from fedpace.random import stream
from fedpace.tasks.networks.cnn import cnn, cnn_ca2fl
from fedpace.tasks.networks.dense import Shape, mlp, softmax
from fedpace.tasks.networks.resnet import resnet18, resnet18_gn, resnet20, resnet20_gn
from fedpace.tasks.networks.text import gru, transformer
from fedpace.tasks.networks.vgg import vgg11, vgg11_bn, vgg11_gn
from fedpace.tasks.statistics import normalisers
from fedpace.untrusted import brief

Builder = Callable[..., nn.Module]

IMAGES: Mapping[str, Builder] = {
    "softmax": softmax,
    "mlp": mlp,
    "cnn": cnn,
    "cnn_ca2fl": cnn_ca2fl,
    "resnet18": resnet18,
    "resnet18_gn": resnet18_gn,
    "resnet20": resnet20,
    "resnet20_gn": resnet20_gn,
    "vgg11": vgg11,
    "vgg11_bn": vgg11_bn,
    "vgg11_gn": vgg11_gn,
}
FEATURES: Mapping[str, Builder] = {"softmax": softmax, "mlp": mlp}
TEXT: Mapping[str, Builder] = {"gru": gru, "transformer": transformer}
# take a width: of the hidden layer (mlp:64), of the first convolution (cnn:8, vgg11:16)
SIZED = ("mlp", "cnn", "gru", "transformer", "vgg11", "vgg11_bn", "vgg11_gn")


def build(model: str, fitting: Mapping[str, Builder], shape: Shape, classes: int, seed: int) -> nn.Module:
    """The network `model` (`mlp`, or `mlp:64` with its width) for inputs of `shape`, initialised by `seed`."""
    name, _, width = model.partition(":")
    if name not in fitting:
        raise unknown("model", model, fitting)
    if width and (name not in SIZED or not re.fullmatch(r"[1-9][0-9]{0,6}", width)):
        allowed = f"a name, or {', '.join(SIZED)} with a width (mlp:64)"
        raise ConfigError(f"model must be {allowed}; got {brief(model)}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(stream(seed, "init").integers(2**63)))
        try:
            network = fitting[name](shape, classes, *([int(width)] if width else []))
            if fitting is IMAGES:
                _train_on_one(network, shape)
        except (RuntimeError, AssertionError, ValueError) as error:
            raise ConfigError(f"model {model} does not fit inputs of shape {shape} ({error})") from None
        return network


def _train_on_one(network: nn.Module, shape: Shape) -> None:
    """The last batch of a pass may be a single sample, which normalisation of a 1x1 map cannot take."""
    if normalisers(network):
        copy.deepcopy(network).train()(torch.zeros(1, *shape))
