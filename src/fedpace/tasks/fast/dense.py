"""Softmax regression and ReLU networks without autograd: local training is one compiled call."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import nn

from fedpace.kernels import difference
from fedpace.local import Stopped, until
from fedpace.tasks.batches import Positions
from fedpace.tasks.examples import Examples, Tensors
from fedpace.tasks.fast import dense_loops as loops
from fedpace.tasks.fast.compiled import Array, aligned
from fedpace.tasks.fast.first_use import announced
from fedpace.tasks.fast.order import planned
from fedpace.tasks.fast.rule import WholeGradient, rates, rule
from fedpace.vector import Vector

if TYPE_CHECKING:
    from fedpace.compute.protocol import Request


def widths_of(layers: Sequence[nn.Module]) -> list[int] | None:
    """The sizes of all layers, if these are linear ones with ReLUs between."""
    linear, between = layers[0::2], layers[1::2]
    if not linear or len(linear) == len(between) or not all(type(part) is nn.ReLU for part in between):
        return None
    widths: list[int] = []
    for part in linear:
        if type(part) is not nn.Linear or part.bias is None or (widths and widths[-1] != part.in_features):
            return None
        widths += [part.out_features] if widths else [part.in_features, part.out_features]
    return widths


def shape_of(widths: Sequence[int]) -> loops.Shape:
    sizes = [outer * (inner + 1) for inner, outer in zip(widths, widths[1:], strict=False)]
    begins, before = np.cumsum([0, *sizes]), np.cumsum([0, *widths[1:]])
    return loops.Shape(np.array(widths), begins[:-1], before[:-1])


def scratch_for(widths: Sequence[int], count: int, dtype: np.dtype[np.floating]) -> loops.Scratch:
    """Memory for batches of up to `count` samples."""
    units = count * sum(widths[1:])
    numbers = np.arange(max(count, *widths))
    return loops.Scratch(aligned(units, dtype), aligned(units, dtype), aligned(units, dtype), numbers)


class Descent(NamedTuple):
    """What `loops.descend` takes."""

    y: Array
    gradient: Array
    shape: loops.Shape
    rows: Array
    labels: Array
    order: Positions
    ends: Positions
    rates: Array
    rule: loops.Rule
    scratch: loops.Scratch

    def step(self, k: int) -> Descent:
        """Step k alone, from where y and the rule's arrays are; of the same types, so nothing is compiled anew."""
        low, high = self.ends[k - 1] if k else 0, self.ends[k]
        ends = self.ends[k : k + 1] - low
        ends.flags.writeable = False
        return self._replace(order=self.order[low:high], ends=ends, rates=self.rates[k : k + 1])


class DenseSolver:
    """Local training of one network in `memory`, as long as its parameters; all of it is reused by the next session."""

    name, call_s = "compiled steps", 3e-6

    def __init__(self, widths: Sequence[int], memory: Array):
        self.widths, self.dtype = tuple(widths), memory.dtype
        self._shape = shape_of(widths)
        self._y = memory
        self._gradient = WholeGradient(memory)
        self._input_type = torch.from_numpy(self._y).dtype
        self._known: WeakKeyDictionary[Tensors, tuple[Array, Array] | None] = WeakKeyDictionary()
        self._room, self._scratch = 0, scratch_for(widths, 1, self.dtype)

    def compiling(self) -> AbstractContextManager[None]:
        return announced(loops.descend, seconds=10)

    def takes(self, data: Examples) -> bool:
        """Whether these are labelled vectors in memory."""
        arrays = self._arrays(data) if isinstance(data, Tensors) else None
        return arrays is not None and bool(loops.in_range(arrays[1], self.widths[-1]))

    def _arrays(self, data: Tensors) -> tuple[Array, Array] | None:
        """These samples as rows and labels; None if they are of another kind."""
        try:
            return self._known[data]
        except KeyError:
            return self._known.setdefault(data, self._look(data))

    def _look(self, data: Tensors) -> tuple[Array, Array] | None:
        rows, labels = data.inputs, data.targets
        kinds = (rows.dtype, labels.dtype, labels.ndim, math.prod(rows.shape[1:]))
        if kinds != (self._input_type, torch.int64, 1, self.widths[0]):
            return None
        return rows.reshape(len(labels), -1).contiguous().numpy(), labels.numpy()

    def solve(self, request: Request, data: Tensors) -> Vector:
        """delta of the request, on samples that it takes."""
        start = np.asarray(request.start, self.dtype)
        loops.descend(*self._descent(request, start, data))
        return difference(self._y, start)

    def train_until(self, request: Request, data: Tensors, stopped: Stopped | None) -> tuple[Vector, int]:
        """(delta, steps taken), one compiled call per step."""
        start = np.asarray(request.start, self.dtype)
        descent, taken = self._descent(request, start, data), 0
        for k in until(stopped, range(request.steps)):
            loops.descend(*descent.step(k))
            taken = k + 1
        return difference(self._y, start), taken

    def _descent(self, request: Request, start: Array, data: Tensors) -> Descent:
        """All local steps, with y at its start."""
        arrays = self._arrays(data)
        assert arrays is not None, "these samples are not taken"
        rows, labels = arrays
        order, ends = planned(request, len(labels))
        self._make_room(int(ends[0]))
        y = self._y
        y[:] = start
        return Descent(
            y,
            self._gradient.memory(request),
            self._shape,
            rows,
            labels,
            order,
            ends,
            rates(request.local, request.steps, self.dtype),
            rule(request.local, request.correction, y),
            self._scratch,
        )

    def network(self, x: Vector) -> None:
        """torch's is as fast on the large batches of an evaluation."""
        return None

    def _make_room(self, count: int) -> None:
        if count > self._room:
            self._room, self._scratch = count, scratch_for(self.widths, count, self.dtype)
