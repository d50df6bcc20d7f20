"""Convolutional networks without autograd: stages of convolutions, then dense layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from fedpace.local import Stopped, until
from fedpace.tasks.batches import Positions
from fedpace.tasks.examples import Examples, Tensors
from fedpace.tasks.fast import dense_loops
from fedpace.tasks.fast.compiled import Array, aligned
from fedpace.tasks.fast.convolution import Convolution, Stage
from fedpace.tasks.fast.dense import scratch_for, shape_of
from fedpace.tasks.fast.first_use import announced
from fedpace.tasks.fast.order import planned
from fedpace.tasks.fast.own_order import OwnOrder
from fedpace.tasks.fast.rule import is_plain, rates, rule
from fedpace.vector import Vector

if TYPE_CHECKING:
    from fedpace.compute.protocol import Request

Step = Callable[[Positions, float], None]  # takes a batch and its learning rate

MEMORY_BYTES = 1 << 26  # for the values of one stage; larger batches are cut, and their gradients added up

MAX_SIZES = 6  # of batches, for which memory is reserved
SHOWN = 20  # images at a time when nothing is learned from them


class Weights:
    """A vector in our order, and the views of it that the stages use."""

    def __init__(self, order: OwnOrder, stages: int):
        self.vector = aligned(order.size, order.dtype)
        whole = torch.from_numpy(self.vector)
        tensors = [piece.in_ours(whole) for piece in order.pieces[: 2 * stages]]
        self.stages: list[tuple[Tensor, Array]] = [
            (weights.flatten(1), bias.numpy())
            for weights, bias in zip(tensors[0::2], tensors[1::2], strict=True)
        ]


class Network:
    """Memory for one number of images, and the way through the network and back."""

    def __init__(
        self,
        stages: Sequence[Stage],
        widths: Sequence[int],
        shape: dense_loops.Shape,
        count: int,
        dtype: np.dtype[np.floating],
    ):
        first = stages[0]
        high, wide = first.high + 2 * first.padding, first.wide + 2 * first.padding
        tensor_type = torch.from_numpy(np.empty(0, dtype)).dtype
        self.inputs = torch.zeros(count, first.channels, high, wide, dtype=tensor_type)
        self._inside = self.inputs[
            :, :, first.padding : high - first.padding, first.padding : wide - first.padding
        ]
        self.stages: list[Convolution] = []
        images = self.inputs
        for k, stage in enumerate(stages):
            margin = stages[k + 1].padding if k + 1 < len(stages) else 0
            self.stages.append(Convolution(stage, count, images, margin))
            images = self.stages[-1].out
        self._features, self._feature_errors = (
            tensor.flatten(1).numpy() for tensor in (images, self.stages[-1].errors)
        )
        self._shape, self._scratch = shape, scratch_for(widths, count, dtype)

    def forward(self, y: Weights, images: Tensor) -> None:
        """The features of these images, ready for the dense layers."""
        self._inside.copy_(images)
        for stage, (weights, bias) in zip(self.stages, y.stages, strict=True):
            stage.forward(weights, bias)

    def outputs(self, y: Weights, images: Tensor) -> Tensor:
        """The network's outputs for these images."""
        self.forward(y, images)
        count, last = len(images), len(self._shape.begins) - 1
        numbers = self._scratch.numbers[:count]
        dense_loops.forward(y.vector, self._shape, self._features, numbers, self._scratch)
        outputs = dense_loops.units(self._scratch.outputs, self._shape, last, count)
        return torch.from_numpy(outputs.copy())

    def add_gradients(self, y: Weights, into: Weights, images: Tensor, labels: Array, scale: float) -> None:
        """into += scale * the gradient at y of the loss summed over these samples."""
        self.forward(y, images)
        dense_loops.add_gradients(
            y.vector,
            into.vector,
            self._shape,
            self._features,
            self._scratch.numbers[: len(labels)],
            labels,
            self._features.dtype.type(scale),
            self._scratch,
            self._feature_errors,
        )
        for k in reversed(range(len(self.stages))):
            below = self.stages[k - 1] if k else None
            self.stages[k].backward(y.stages[k][0], into.stages[k], scale, below)


class Forward(nn.Module):
    """A function of a batch as a module."""

    def __init__(self, function: Callable[[Tensor], Tensor]):
        super().__init__()
        self.function = function

    def forward(self, inputs: Tensor) -> Tensor:
        return self.function(inputs)


class ImageSolver:
    """Local training of one convolutional network; memory is reused from session to session."""

    name, call_s = "unrolled convolutions", 1e-4

    def __init__(self, stages: Sequence[Stage], widths: Sequence[int], dtype: np.dtype[np.floating]):
        self.stages, self.widths, self.dtype = tuple(stages), tuple(widths), np.dtype(dtype)
        self._order = OwnOrder(stages, widths, dtype)
        begins = [piece.ours for piece in self._order.pieces[2 * len(stages) :: 2]]
        self._shape = shape_of(widths)._replace(begins=np.array(begins))
        self._y, self._gradient = (Weights(self._order, len(stages)) for _ in range(2))
        self._networks: dict[int, Network] = {}
        self._input_type = torch.from_numpy(self._y.vector).dtype

    @property
    def at_once(self) -> int:
        """How many images go through the network together."""
        largest = max(stage.patches * stage.filters for stage in self.stages)
        return max(1, MEMORY_BYTES // (largest * int(self.dtype.itemsize)))

    def compiling(self) -> AbstractContextManager[None]:
        return announced(dense_loops.add_gradients, seconds=10)

    def takes(self, data: Examples) -> bool:
        """Whether these are labelled images in memory, of the right size."""
        first = self.stages[0]
        return (
            isinstance(data, Tensors)
            and data.inputs.dtype == self._input_type
            and data.inputs.shape[1:] == (first.channels, first.high, first.wide)
            and data.targets.dtype == torch.int64
            and data.targets.ndim == 1
            and bool(dense_loops.in_range(data.targets.numpy(), self.widths[-1]))
        )

    def solve(self, request: Request, data: Tensors) -> Vector:
        """delta of the request."""
        delta, _ = self.train_until(request, data, None)
        return delta

    @torch.no_grad()
    def train_until(self, request: Request, data: Tensors, stopped: Stopped | None) -> tuple[Vector, int]:
        """(delta, steps taken); momentum and the like live in the step, from the first to the last."""
        start = np.asarray(request.start, self.dtype)
        self._order.take(start, self._y.vector)
        order, ends = planned(request, len(data))
        plain = is_plain(request) and ends[0] <= self.at_once
        step = self._plain(data) if plain else self._ruled(request, data)
        steps = zip([0, *ends], ends, rates(request.local, request.steps, self.dtype), strict=False)
        taken = 0
        for low, high, rate in until(stopped, steps):
            step(order[low:high], rate)
            taken += 1
        delta: Vector = self._order.give(self._y.vector)
        delta -= start
        return delta, taken

    def _plain(self, data: Tensors) -> Step:
        """Gradients straight into the weights."""
        return lambda picks, rate: self._add(self._y, data, picks, -rate / len(picks))

    def _ruled(self, request: Request, data: Tensors) -> Step:
        """A whole gradient first, then what the local rule makes of it."""
        y, gradient = self._y.vector, self._gradient.vector
        local = rule(request.local, self._correction(request), y)

        def step(picks: Positions, rate: float) -> None:
            gradient[:] = 0
            for at in range(0, len(picks), self.at_once):
                self._add(self._gradient, data, picks[at : at + self.at_once], 1 / len(picks))
            dense_loops.move(y, gradient, rate, local)

        return step

    def _correction(self, request: Request) -> Vector | None:
        if request.correction is None:
            return None
        correction = aligned(self._order.size, self.dtype)
        self._order.take(request.correction, correction)
        return correction

    def network(self, x: Vector) -> nn.Module:
        """The network with the parameters `x`, for evaluation; valid until the next session."""
        self._order.take(x, self._y.vector)
        return Forward(self._outputs)

    @torch.no_grad()
    def _outputs(self, inputs: Tensor) -> Tensor:
        parts = [inputs[low : low + SHOWN] for low in range(0, len(inputs), SHOWN)]
        return torch.cat([self._network(len(part)).outputs(self._y, part) for part in parts])

    def _network(self, count: int) -> Network:
        if count not in self._networks:
            if len(self._networks) == MAX_SIZES:
                del self._networks[next(iter(self._networks))]
            self._networks[count] = Network(self.stages, self.widths, self._shape, count, self.dtype)
        return self._networks[count]

    def _add(self, into: Weights, data: Tensors, picks: Positions, scale: float) -> None:
        chosen = torch.from_numpy(picks)
        labels = data.targets.numpy()[picks]
        images = data.inputs.index_select(0, chosen)
        self._network(len(picks)).add_gradients(self._y, into, images, labels, float(scale))
