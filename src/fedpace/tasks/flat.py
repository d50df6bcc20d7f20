"""A torch module whose trainable parameters are views of one flat vector."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from fedpace.compute.device import Device
from fedpace.errors import ConfigError, require
from fedpace.vector import Layout, Spans, Vector

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

    def __init__(self, module: nn.Module, device: Device | None = None):
        self.module, self.device = copy.deepcopy(module), device or Device()
        named = [(name, p) for name, p in self.module.named_parameters() if p.requires_grad]
        require(bool(named), "the module", type(module).__name__, "one with trainable parameters")
        self.parameters: list[Tensor] = [p for _, p in named]
        self.layout = Layout.of({name: p.shape for name, p in named})
        self.vector = self.device.empty(self.layout.size, _dtype(self.parameters, self.device))
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
        return self.device.download(self.vector).copy()

    def memory(self) -> npt.NDArray[Any]:
        """The vector itself, for solvers that train in it; every use of it begins with `reset`, or as they do."""
        return self.device.download(self.vector)

    def reset(self, x: Vector) -> None:
        """Parameters from `x`, buffers as they came, parts that were frozen in evaluation mode left so."""
        self.device.load(x, self.vector)
        for buffer, value in self._buffers:
            buffer.copy_(value)
        for part, training in self._modes:
            part.training = training

    def share(self, module: nn.Module, values: Vector) -> None:
        """Let the parameters of the module that this is a copy of lie in `values`, which holds the same numbers."""
        whole, at = Device().upload(values), self.layout.offsets
        own = [p for p in module.parameters() if p.requires_grad]
        for p, low, high in zip(own, at, at[1:], strict=False):
            p.data = whole[low:high].view(p.shape)

    def outside(self, spans: Spans) -> list[Tensor]:
        """The parameters that do not lie in these parts of the vector."""
        starts = zip(self.parameters, self.layout.offsets, strict=False)
        return [p for p, at in starts if not any(low <= at < high for low, high in spans)]

    def trains(self, part: nn.Module) -> bool:
        """Whether a part of the module is in training mode during a session."""
        return any(training for each, training in self._modes if each is part)

    def others(self) -> dict[str, npt.NDArray[Any]]:
        """The module's tensors that are not in the vector under their own name; frozen parameters are not copied."""
        named = self.module.named_parameters(remove_duplicate=False)
        frozen = {name for name, p in named if not p.requires_grad}
        tensors = self.module.state_dict().items()
        found = {name: t for name, t in tensors if isinstance(t, Tensor) and name not in self.layout.names}
        return {
            name: self._array(t) if name in frozen else self._array(t).copy() for name, t in found.items()
        }

    def _array(self, tensor: Tensor) -> npt.NDArray[Any]:
        """numpy has no bfloat16, and float32 holds the same numbers."""
        return self.device.download(tensor.float() if tensor.dtype == torch.bfloat16 else tensor)

    def gradient(self, loss: Tensor) -> Tensor:
        """d loss / d vector, in a buffer that the next call overwrites."""
        loss = self.device.check(loss, self.vector)
        parts = torch.autograd.grad(loss, self.parameters, allow_unused=True)
        pieces = [
            torch.zeros_like(p).view(-1) if g is None else g.reshape(-1)
            for p, g in zip(self.parameters, parts, strict=True)
        ]
        return torch.cat(pieces, out=self._gradient)

    def gradient_memory(self) -> tuple[Tensor, list[Tensor]]:
        """The buffer of `gradient`, and its parts in the parameters' shapes."""
        at, whole = self.layout.offsets, self._gradient
        parts = zip(self.parameters, at, at[1:], strict=False)
        return whole, [whole[low:high].view(p.shape) for p, low, high in parts]

    def _adopt(self) -> None:
        """Move every parameter's storage into the vector, and all else to the device."""
        at = self.layout.offsets
        views = [
            self.vector[low:high].view(p.shape)
            for p, low, high in zip(self.parameters, at, at[1:], strict=False)
        ]
        for view, p in zip(views, self.parameters, strict=True):
            view.copy_(self.device.place(p.data))
        if self.device.is_host:
            for view, p in zip(views, self.parameters, strict=True):
                p.data = view
        else:
            self.parameters = _replaced(self.module, self.parameters, views, self.device)


def separated(module: nn.Module) -> nn.Module:
    """A copy whose parameters have memory of their own: pickling a part of a vector takes all of it along."""
    copied = copy.deepcopy(module)
    for p in copied.parameters():
        p.data = p.data.clone()
    return copied


def _replaced(module: nn.Module, old: list[Tensor], views: list[Tensor], device: Device) -> list[Tensor]:
    """New parameters in the place of `old` everywhere in the module; a parameter cannot change its device."""
    new = {id(p): nn.Parameter(view) for p, view in zip(old, views, strict=True)}
    for part in module.modules():
        for name, p in list(part._parameters.items()):
            if p is not None:
                if id(p) not in new:
                    new[id(p)] = nn.Parameter(device.place(p.data), requires_grad=False)
                setattr(part, name, new[id(p)])
        for name, buffer in list(part._buffers.items()):
            if buffer is not None:
                part._buffers[name] = device.place(buffer)
    return [new[id(p)] for p in old]


def _dtype(parameters: list[Tensor], device: Device) -> torch.dtype:
    dtypes = {p.dtype for p in parameters}
    known = DTYPES.keys() - ({torch.float64} if device.type == "mps" else set())
    if len(dtypes) > 1 or not dtypes <= known:
        found = ", ".join(sorted(map(str, dtypes)))
        allowed = "all float32" + " or all float64" * (torch.float64 in known)
        raise ConfigError(
            f"trainable parameters must be {allowed} (precision= is for half precision); got {found}"
        )
    return dtypes.pop()
