"""Fully connected networks of many kinds of layers without autograd: local training is a compiled call."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from fedpace.kernels import difference
from fedpace.local import Stopped, until
from fedpace.tasks.batches import Positions
from fedpace.tasks.examples import Examples, Tensors
from fedpace.tasks.fast import Randomness
from fedpace.tasks.fast import activations as kinds
from fedpace.tasks.fast import layer_loops as loops
from fedpace.tasks.fast.activations import LayerMemory
from fedpace.tasks.fast.compiled import Array, aligned
from fedpace.tasks.fast.dense_loops import in_range
from fedpace.tasks.fast.first_use import announced
from fedpace.tasks.fast.losses import Loss
from fedpace.tasks.fast.order import planned
from fedpace.tasks.fast.rule import WholeGradient, rates, rule
from fedpace.vector import Vector

if TYPE_CHECKING:
    from fedpace.compute.protocol import Request

MASKS_BYTES = 1 << 25  # of dropout drawn at a time


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer; `number` is what its kind needs (`layer_loops.Layers`)."""

    kind: int
    inner: int
    outer: int
    biased: bool = False
    number: float = 0.0

    @property
    def size(self) -> int:
        """Of its parameters."""
        if self.kind == kinds.LINEAR:
            return self.outer * (self.inner + self.biased)
        return self.outer * (1 + self.biased) if self.kind == kinds.NORM else 0


def layers_of(parts: Sequence[nn.Module], shape: tuple[int, ...]) -> list[Layer] | None:
    """The layers of a network for inputs of `shape`, if compiled steps know them all."""
    width, flat = math.prod(shape), len(shape) == 1
    layers: list[Layer] = []
    for part in parts:
        flat |= type(part) is nn.Flatten and (part.start_dim, part.end_dim) == (1, -1)
        layer = _layer(part, width, flat)
        if layer is None:
            return None
        if layer.kind != kinds.COPY:
            layers.append(layer)
        width = layer.outer
    if not flat or not any(layer.kind == kinds.LINEAR for layer in layers):
        return None
    first = [] if layers[0].kind == kinds.LINEAR else [Layer(kinds.COPY, layers[0].inner, layers[0].inner)]
    return first + layers


def _layer(part: nn.Module, width: int, flat: bool) -> Layer | None:
    """The layer for inputs of this width; COPY where nothing is to be done."""
    if type(part) is nn.Linear:
        fits = flat and part.in_features == width
        return Layer(kinds.LINEAR, width, part.out_features, part.bias is not None) if fits else None
    if type(part) is nn.LayerNorm:
        kind = kinds.NORM if part.elementwise_affine else kinds.BARE_NORM
        fits = flat and tuple(part.normalized_shape) == (width,)
        return Layer(kind, width, width, part.bias is not None, part.eps) if fits else None
    number = _number(part)
    return None if number is None else Layer(number[0], width, width, number=number[1])


def _number(part: nn.Module) -> tuple[int, float] | None:
    """Kind and number of a layer that works entry by entry."""
    plain: dict[type, int] = {
        nn.Flatten: kinds.COPY,
        nn.ReLU: kinds.RELU,
        nn.Tanh: kinds.TANH,
        nn.Sigmoid: kinds.SIGMOID,
    }
    if type(part) is nn.Flatten and (part.start_dim, part.end_dim) != (1, -1):
        return None
    if type(part) is nn.LeakyReLU:
        return kinds.LEAKY, part.negative_slope
    if type(part) is nn.GELU:
        return (kinds.GELU if part.approximate == "none" else kinds.GELU_TANH), 0.0
    if type(part) is nn.Dropout:
        if part.p == 1:
            return None
        return (kinds.DROPOUT if part.p else kinds.COPY), 1 / (1 - part.p)
    return (plain[type(part)], 0.0) if type(part) in plain else None


def compiled_form(layers: Sequence[Layer], dtype: np.dtype[np.floating]) -> loops.Layers:
    sizes, widths = [layer.size for layer in layers], [layer.outer for layer in layers]
    return loops.Layers(
        np.array([layer.kind for layer in layers]),
        np.array([layers[0].inner, *widths]),
        np.cumsum([0, *sizes])[:-1],
        np.array([layer.biased for layer in layers]),
        np.array([layer.number for layer in layers], dtype),
        np.cumsum([0, *widths])[:-1],
    )


def memory_for(layers: Sequence[Layer], count: int, dtype: np.dtype[np.floating]) -> LayerMemory:
    """For batches of up to `count` samples."""
    widest = max(max(layer.inner, layer.outer) for layer in layers)
    units, most = count * sum(layer.outer for layer in layers), max(count, 2) * widest
    powers = aligned(most, dtype)
    bits = powers.view(np.int32 if powers.itemsize == 4 else np.int64)
    order, zeros, ones = np.arange(max(count, widest)), np.zeros(widest, dtype), np.ones(widest, dtype)
    return LayerMemory(
        aligned(units, dtype), aligned(units, dtype), aligned(most, dtype), powers, bits, order, zeros, ones
    )


class LayerSolver:
    """Local training of one network in `memory`, as long as its parameters; all of it is reused by the next session."""

    name, call_s = "compiled steps", 1e-5

    def __init__(self, layers: Sequence[Layer], loss: Loss, memory: Array, randomness: Randomness):
        self.layers, self.loss, self.dtype, self._randomness = tuple(layers), loss, memory.dtype, randomness
        self._form = compiled_form(layers, self.dtype)
        self._y, self._gradient = memory, WholeGradient(memory)
        self._room, self._memory = 0, memory_for(layers, 1, self.dtype)
        self._keep = [
            (layer.outer, 1 / layer.number) for layer in layers if layer.kind == kinds.DROPOUT
        ]  # units, and the probability that one stays

    def compiling(self) -> AbstractContextManager[None]:
        return announced(loops.descend, seconds=20)

    def takes(self, data: Examples) -> bool:
        """Whether these are vectors in memory, with the targets that the loss wants."""
        if not isinstance(data, Tensors) or math.prod(data.inputs.shape[1:]) != self.layers[0].inner:
            return False
        wide, own = self.layers[-1].outer, torch.from_numpy(self._y).dtype
        if data.inputs.dtype != own:
            return False
        if not self.loss.has_labels:
            return data.targets.dtype == own and tuple(data.targets.shape[1:]) == (wide,)
        labelled = data.targets.dtype == torch.int64 and data.targets.ndim == 1
        return labelled and bool(in_range(data.targets.numpy(), wide))

    def solve(self, request: Request, data: Tensors) -> Vector:
        """delta of the request, on samples that it takes."""
        delta, _ = self._trained(request, data, None, self._at_once(request, data))
        return delta

    def train_until(self, request: Request, data: Tensors, stopped: Stopped | None) -> tuple[Vector, int]:
        """(delta, steps taken), one compiled call per step."""
        return self._trained(request, data, stopped, 1)

    def network(self, x: Vector) -> None:
        """torch's is as fast on the large batches of an evaluation."""
        return None

    def _trained(
        self, request: Request, data: Tensors, stopped: Stopped | None, at_once: int
    ) -> tuple[Vector, int]:
        start = np.asarray(request.start, self.dtype)
        order, ends = planned(request, len(data))
        self._make_room(int(ends[0]))
        self._y[:] = start
        part = self._parts(request, data, order, ends)
        taken = 0
        with self._randomness(request):
            for low in until(stopped, range(0, request.steps, at_once)):
                taken = min(low + at_once, request.steps)
                loops.descend(*part(low, taken))
        return difference(self._y, start), taken

    def _parts(
        self, request: Request, data: Tensors, order: Positions, ends: Positions
    ) -> Callable[[int, int], tuple[Any, ...]]:
        """What the loops take for the steps from `low` to `high`; always of the same types."""
        rows = data.inputs.reshape(len(data), -1).contiguous().numpy()
        gradient = self._gradient.memory(request)
        speeds, moves = (
            rates(request.local, request.steps, self.dtype),
            rule(request.local, request.correction, self._y),
        )
        target = self._target(data)

        def part(low: int, high: int) -> tuple[Any, ...]:
            begin = ends[low - 1] if low else 0
            own = ends[low:high] - begin
            picks, masks = order[begin : ends[high - 1]], self._masks(own)
            common = (self._y, gradient, self._form, rows, target, picks, own)
            return *common, speeds[low:high], moves, self._memory, masks

        return part

    def _target(self, data: Tensors) -> loops.Target:
        labels, values = np.empty(0, np.int64), np.empty((0, 0), self.dtype)
        if self.loss.has_labels:
            labels = data.targets.numpy()
        else:
            values = data.targets.contiguous().numpy()
        return loops.Target(self.loss.kind, self.loss.smoothing, labels, values)

    def _at_once(self, request: Request, data: Tensors) -> int:
        """Steps of one compiled call: all, unless their masks take too much memory."""
        size = min(request.local.batch_size or len(data), len(data))
        each = self.dtype.itemsize * size * sum(units for units, _ in self._keep)
        return max(1, min(request.steps, MASKS_BYTES // each)) if each else request.steps

    def _masks(self, ends: Positions) -> Array:
        """1 where a unit stays, 0 where it is dropped: the very draws that torch's dropout makes, in its order."""
        units = sum(units for units, _ in self._keep)
        masks = np.empty(int(ends[-1]) * units, self.dtype)
        for drawn, probability in self._places(torch.from_numpy(masks), ends):
            drawn.bernoulli_(probability)
        return masks

    def _places(self, masks: torch.Tensor, ends: Positions) -> Iterator[tuple[torch.Tensor, float]]:
        at = 0
        for size in np.diff(ends, prepend=0).tolist() if self._keep else ():
            for units, probability in self._keep:
                yield masks[at : at + size * units], probability
                at += size * units

    def _make_room(self, count: int) -> None:
        if count > self._room:
            self._room, self._memory = count, memory_for(self.layers, count, self.dtype)
