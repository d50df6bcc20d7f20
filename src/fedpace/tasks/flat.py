"""A torch module whose trainable parameters are views of one flat vector."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from fedpace.errors import ConfigError, require
from fedpace.vector import Layout, Vector

DTYPES: dict[torch.dtype, type[np.float32] | type[np.float64]] = {
    torch.float32: np.float32,
    torch.float64: np.float64,
}


class FlatModule:
    """A private copy of `module`; writing to `vector` changes its parameters, and nothing else does.

    The vector holds the parameters that require a gradient, in the order of `parameters()`: tied weights
    once, frozen ones not at all. Buffers (running statistics) do not travel: `reset` puts back the values
    the module came with, so that nothing one session leaves behind can reach the next.
    """

    def __init__(self, module: nn.Module):
        self.module = copy.deepcopy(module)
        named = [(name, p) for name, p in self.module.named_parameters() if p.requires_grad]
        require(bool(named), "the module", type(module).__name__, "one with trainable parameters")
        self.parameters: list[Tensor] = [p for _, p in named]
        self.layout = Layout.of({name: p.shape for name, p in named})
        self.vector = torch.empty(self.layout.size, dtype=_dtype(self.parameters))
        self._gradient = torch.empty_like(self.vector)
        self._adopt()
        self._buffers = [(buffer, buffer.clone()) for buffer in self.module.buffers()]
        self._modes = [(part, part.training or not module.training) for part in self.module.modules()]

    def __setstate__(self, state: dict[str, object]) -> None:
        """Pickling takes views for tensors of their own."""
        self.__dict__.update(state)
        self._adopt()

    @property
    def dtype(self) -> np.dtype[np.floating]:
        return np.dtype(DTYPES[self.vector.dtype])

    def values(self) -> Vector:
        """A copy of the vector."""
        return self.vector.numpy().copy()

    def reset(self, x: Vector) -> None:
        """Parameters from `x`, buffers as they came, parts that were frozen in evaluation mode left so."""
        self.vector.numpy()[:] = x
        for buffer, value in self._buffers:
            buffer.copy_(value)
        for part, training in self._modes:
            part.training = training

    def others(self) -> dict[str, npt.NDArray[Any]]:
        """The module's tensors that are not in the vector under their own name; frozen parameters are not copied."""
        named = self.module.named_parameters(remove_duplicate=False)
        frozen = {name for name, p in named if not p.requires_grad}
        tensors = self.module.state_dict().items()
        found = {name: t for name, t in tensors if isinstance(t, Tensor) and name not in self.layout.names}
        return {name: _as_numpy(t) if name in frozen else _as_numpy(t).copy() for name, t in found.items()}

    def gradient(self, loss: Tensor) -> Tensor:
        """d loss / d vector, in a buffer that the next call overwrites."""
        parts = torch.autograd.grad(loss, self.parameters, allow_unused=True)
        pieces = [
            torch.zeros_like(p).view(-1) if g is None else g.reshape(-1)
            for p, g in zip(self.parameters, parts, strict=True)
        ]
        return torch.cat(pieces, out=self._gradient)

    def _adopt(self) -> None:
        """Move every parameter's storage into the vector."""
        at = self.layout.offsets
        for p, low, high in zip(self.parameters, at, at[1:], strict=False):
            view = self.vector[low:high].view(p.shape)
            view.copy_(p.data)
            p.data = view


def _as_numpy(tensor: Tensor) -> npt.NDArray[Any]:
    """numpy has no bfloat16, and float32 holds the same numbers."""
    array: npt.NDArray[Any] = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
    return array


def _dtype(parameters: list[Tensor]) -> torch.dtype:
    dtypes = {p.dtype for p in parameters}
    devices = {p.device.type for p in parameters}
    if len(dtypes) > 1 or not dtypes <= DTYPES.keys() or devices != {"cpu"}:
        found = ", ".join(sorted({f"{p.dtype} on {p.device}" for p in parameters}))
        raise ConfigError(f"trainable parameters must be all float32 or all float64, on the CPU; got {found}")
    return dtypes.pop()
