"""VGG-11 for 32x32 images: Simonyan and Zisserman, arXiv:1409.1556, configuration A."""

from __future__ import annotations

from functools import partial

from torch import nn

from fedpace.tasks.networks.cnn import flat_size
from fedpace.tasks.networks.dense import Shape
from fedpace.tasks.networks.resnet import Norm, group_norm

STAGES = ((1,), (2,), (4, 4), (8, 8), (8, 8))  # channels, in multiples of the first layer's


def vgg11(shape: Shape, classes: int, width: int = 64, norm: Norm | None = None) -> nn.Module:
    """Eight 3x3 convolutions in five pooled stages and three layers of 512: 9,750,922 parameters.

    `width`, the channels of the first convolution, scales all layers: vgg11:16 has a quarter of each.
    Departures: layers of 512 instead of 4096, as usual for CIFAR, and no dropout.
    """
    layers: list[nn.Module] = []
    inputs = shape[0]
    for stage in STAGES:
        for outputs in (width * times for times in stage):
            layers += [
                nn.Conv2d(inputs, outputs, 3, padding=1),
                *([norm(outputs)] if norm else []),
                nn.ReLU(),
            ]
            inputs = outputs
        layers.append(nn.MaxPool2d(2))
    features = nn.Sequential(*layers, nn.Flatten())
    first = nn.Linear(flat_size(features, shape), inputs)
    return nn.Sequential(
        features, first, nn.ReLU(), nn.Linear(inputs, inputs), nn.ReLU(), nn.Linear(inputs, classes)
    )


vgg11_bn = partial(vgg11, norm=nn.BatchNorm2d)
vgg11_gn = partial(vgg11, norm=group_norm)
