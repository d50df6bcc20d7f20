"""Networks that see an image as a list of numbers."""

from __future__ import annotations

import math

from torch import nn

Shape = tuple[int, ...]


def softmax(shape: Shape, classes: int) -> nn.Module:
    """Multinomial logistic regression: convex."""
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), classes))


def mlp(shape: Shape, classes: int, hidden: int | None = None) -> nn.Module:
    """One hidden layer of ReLUs: 784-200-10 on 28x28 images, 64-32-10 on digits."""
    inputs = math.prod(shape)
    width = hidden if hidden is not None else (32 if inputs <= 64 else 200)
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, classes))
