"""Images with their channels last in memory: convolutions on a CPU are then faster, and round differently."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from fedpace.tasks.examples import Examples, Tensors
from fedpace.tasks.flat import FlatModule
from fedpace.tasks.objective import Objective


def channels_last(images: Tensor) -> Tensor:
    return images.contiguous(memory_format=torch.channels_last)


def as_given(inputs: Tensor) -> Tensor:
    return inputs


def can_be_last(flat: FlatModule, objective: Objective, data: Examples) -> bool:
    """Whether a module convolves images and can take them so: one that views them as rows cannot."""
    if not isinstance(data, Tensors) or data.inputs.ndim != 4:
        return False
    if not any(isinstance(part, nn.Conv2d) for part in flat.module.modules()):
        return False
    images, targets = data.take(np.arange(min(2, len(data))))
    try:
        with torch.enable_grad():
            flat.gradient(objective(flat.module, (channels_last(images), targets)))
    except (RuntimeError, ValueError):
        return False
    return True
