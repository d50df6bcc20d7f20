"""A model without data: what a server of a deployment has."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
from torch import nn

from fedpace.errors import require
from fedpace.tasks.flat import FlatModule
from fedpace.tasks.statistics import batch_norm_parameters
from fedpace.tasks.sums import channels_of, tensors_with
from fedpace.vector import Vector, freeze


class ModelOnly:
    """Name, layout and initial parameters of a module; the module itself is never touched."""

    def __init__(self, model: nn.Module) -> None:
        require(isinstance(model, nn.Module), "model", type(model).__name__, "a torch.nn.Module")
        self._flat = flat = FlatModule(model)
        self.name, self.layout, self._initial = type(model).__name__, flat.layout, freeze(flat.values())
        self.normalisers, self.batch_norm = channels_of(flat), batch_norm_parameters(flat)

    def initial(self, seed: int) -> Vector:
        """The module's parameters as they were given, whatever the seed."""
        return self._initial

    def tensors_with(self, x: Vector, statistics: Vector | None) -> dict[str, npt.NDArray[Any]]:
        """What the module holds beside the parameters `x`, with these running statistics."""
        return tensors_with(self._flat, x, statistics)

    def __repr__(self) -> str:
        return f"ModelOnly({self.name}, parameters={self.layout.size})"
