"""A model without data: what a server of a deployment has."""

from __future__ import annotations

from torch import nn

from fedpace.errors import require
from fedpace.tasks.flat import FlatModule
from fedpace.vector import Vector, freeze


class ModelOnly:
    """Name, layout and initial parameters of a module; the module itself is never touched."""

    def __init__(self, model: nn.Module) -> None:
        require(isinstance(model, nn.Module), "model", type(model).__name__, "a torch.nn.Module")
        flat = FlatModule(model)
        self.name, self.layout, self._initial = type(model).__name__, flat.layout, freeze(flat.values())

    def initial(self, seed: int) -> Vector:
        """The module's parameters as they were given, whatever the seed."""
        return self._initial

    def __repr__(self) -> str:
        return f"ModelOnly({self.name}, parameters={self.layout.size})"
