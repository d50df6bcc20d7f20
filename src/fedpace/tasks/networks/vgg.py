"""VGG-11 for 32x32 images: Simonyan and Zisserman, arXiv:1409.1556, configuration A."""

from __future__ import annotations

from functools import partial

from torch import nn

from fedpace.tasks.networks.cnn import flat_size
from fedpace.tasks.networks.dense import Shape
from fedpace.tasks.networks.resnet import Norm, group_norm

STAGES = ((64,), (128,), (256, 256), (512, 512), (512, 512))


def vgg11(shape: Shape, classes: int, norm: Norm | None = None) -> nn.Module:
    """Eight 3x3 convolutions in five pooled stages and three layers of 512: 9,750,922 parameters.

    Departures: layers of 512 instead of 4096, as usual for CIFAR, and no dropout.
    """
    layers: list[nn.Module] = []
    inputs = shape[0]
    for stage in STAGES:
        for width in stage:
            layers += [nn.Conv2d(inputs, width, 3, padding=1), *([norm(width)] if norm else []), nn.ReLU()]
            inputs = width
        layers.append(nn.MaxPool2d(2))
    features = nn.Sequential(*layers, nn.Flatten())
    first = nn.Linear(flat_size(features, shape), 512)
    return nn.Sequential(features, first, nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, classes))


vgg11_bn = partial(vgg11, norm=nn.BatchNorm2d)
vgg11_gn = partial(vgg11, norm=group_norm)
