"""Residual networks for small images, with BatchNorm or GroupNorm."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedpace.tasks.networks.dense import Shape

Norm = Callable[[int], nn.Module]


def group_norm(channels: int) -> nn.Module:
    """Groups of 16 channels, at most 32 of them: statistics of one sample, so nothing to average."""
    return nn.GroupNorm(max(1, min(32, channels // 16)), channels)


class Block(nn.Module):
    """Two 3x3 convolutions around which the input is carried: He et al., arXiv:1512.03385."""

    def __init__(self, inputs: int, outputs: int, stride: int, norm: Norm, projected: bool):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm1 = norm(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = norm(outputs)
        self.stride, self.added = stride, outputs - inputs
        self.shortcut = nn.Sequential()
        if projected and (stride > 1 or self.added):
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), norm(outputs))
            self.added = 0

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self._carried(x))

    def _carried(self, x: Tensor) -> Tensor:
        """Projected, or subsampled with zero channels added (option A of the paper)."""
        if not self.added:
            carried: Tensor = self.shortcut(x)
            return carried
        before = self.added // 2
        x = x[:, :, :: self.stride, :: self.stride]
        return F.pad(x, (0, 0, 0, 0, before, self.added - before))


class ResNet(nn.Module):
    """A 3x3 convolution, stages of blocks that halve the image and double the channels, a mean, a layer."""

    def __init__(
        self, shape: Shape, classes: int, widths: tuple[int, ...], depth: int, norm: Norm, projected: bool
    ):
        super().__init__()
        self.stem = nn.Conv2d(shape[0], widths[0], 3, padding=1, bias=False)
        self.norm = norm(widths[0])
        blocks, inputs = [], widths[0]
        for stage, width in enumerate(widths):
            for k in range(depth):
                stride = 2 if stage > 0 and k == 0 else 1
                blocks.append(Block(inputs, width, stride, norm, projected))
                inputs = width
        self.blocks = nn.Sequential(*blocks)
        self.output = nn.Linear(inputs, classes)

    def forward(self, x: Tensor) -> Tensor:
        y = self.blocks(F.relu(self.norm(self.stem(x))))
        logits: Tensor = self.output(torch.flatten(F.adaptive_avg_pool2d(y, 1), 1))
        return logits


def resnet18(shape: Shape, classes: int, norm: Norm = nn.BatchNorm2d) -> nn.Module:
    """ResNet-18 for 32x32 images (3x3 stem, no first pooling): 11,173,962 parameters for 10 classes."""
    return ResNet(shape, classes, (64, 128, 256, 512), 2, norm, projected=True)


def resnet20(shape: Shape, classes: int, norm: Norm = nn.BatchNorm2d) -> nn.Module:
    """ResNet-20 of the CIFAR section of the paper, shortcuts without parameters: 269,722 parameters."""
    return ResNet(shape, classes, (16, 32, 64), 3, norm, projected=False)


resnet18_gn = partial(resnet18, norm=group_norm)
resnet20_gn = partial(resnet20, norm=group_norm)
