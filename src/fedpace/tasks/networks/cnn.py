"""The convolutional networks of the DeFedAvg and CA2FL experiments.

Pooling comes before the ReLU: the two commute, and the ReLU then has a quarter of the work.
"""

from __future__ import annotations

import math
from collections import OrderedDict

import torch
from torch import nn

from fedpace.tasks.networks.dense import Shape


def cnn(shape: Shape, classes: int, width: int = 32) -> nn.Module:
    """DeFedAvg's: twice a 5x5 convolution (32, 64 channels) and 2x2 pooling, then 512 units.

    582,026 parameters and 4.267 M multiply-accumulates on 28x28, 878,538 and 7.826 M on 32x32x3.
    `width`, the channels of the first convolution, scales all layers: cnn:8 has a quarter of each.
    """
    features = nn.Sequential(
        *_stage(shape[0], width, padding=0), *_stage(width, 2 * width, padding=0), nn.Flatten()
    )
    return nn.Sequential(
        OrderedDict(
            features=features,
            hidden=nn.Linear(flat_size(features, shape), 16 * width),
            relu=nn.ReLU(),
            output=nn.Linear(16 * width, classes),
        )
    )


def cnn_ca2fl(shape: Shape, classes: int) -> nn.Module:
    """CA2FL's, the CNN of Wang and Ji 2022: padded 5x5 convolutions, then 512 and 128 units.

    2,218,314 parameters on 32x32x3. Kaiming-normal weights and zero biases, except in the last layer.
    """
    features = nn.Sequential(*_stage(shape[0], 32, padding=2), *_stage(32, 64, padding=2), nn.Flatten())
    inputs = flat_size(features, shape)
    hidden = nn.Sequential(nn.Linear(inputs, 512), nn.ReLU(), nn.Linear(512, 128), nn.ReLU())
    for name, parameter in (*features.named_parameters(), *hidden.named_parameters()):
        nn.init.kaiming_normal_(parameter) if name.endswith("weight") else nn.init.zeros_(parameter)
    return nn.Sequential(OrderedDict(features=features, hidden=hidden, output=nn.Linear(128, classes)))


def _stage(inputs: int, outputs: int, padding: int) -> tuple[nn.Module, ...]:
    return nn.Conv2d(inputs, outputs, 5, padding=padding), nn.MaxPool2d(2), nn.ReLU()


def flat_size(features: nn.Module, shape: Shape) -> int:
    """How many numbers `features` makes of one input."""
    with torch.no_grad():
        return math.prod(features(torch.zeros(1, *shape)).shape[1:])
