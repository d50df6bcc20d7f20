"""A trained model for inference: arrays as torch's tensors, and into a module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from fedpace.errors import require

Arrays = Mapping[str, npt.NDArray[Any]]


def tensors(arrays: Arrays) -> dict[str, torch.Tensor]:
    """Copies, under the same names."""
    return {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}


def into_module(module: nn.Module, arrays: Arrays) -> nn.Module:
    """The module with these tensors, in evaluation mode; ConfigError if it has others, or of other shapes."""
    require(isinstance(module, nn.Module), "module", type(module).__name__, "a torch.nn.Module")
    own = {name: tuple(t.shape) for name, t in module.state_dict().items() if isinstance(t, torch.Tensor)}
    given = {name: array.shape for name, array in arrays.items()}
    wrong = sorted(name for name in own.keys() | given.keys() if own.get(name) != given.get(name))
    first = [
        f"{name}: {own.get(name, 'none')} in the module, {given.get(name, 'none')} in the run"
        for name in wrong
    ]
    require(not wrong, "module", "; ".join(first[:3]), "one with the tensors of the module that was trained")
    module.load_state_dict(
        tensors(arrays), strict=False
    )  # all there is but a module's extra state is checked above
    return module.eval()
