"""One stage of a convolutional network: convolution, max pooling and ReLU as matrix products and loops.

Patches are unrolled into a matrix, so that a convolution and its two gradients are three products at the
speed of the processor; for plain SGD the last of them lands in the weights. Pooling comes before the ReLU,
which then has less to do; the two commute, ties and their gradients included.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedpace.tasks.fast import image_loops as loops
from fedpace.tasks.fast.compiled import Array

PATCHES_BYTES = 1 << 21  # unrolled at a time: more would leave the cache


@dataclass(frozen=True, slots=True)
class Stage:
    """Sizes of one stage. Inputs are (channels, high, wide); the first stage's come channel by channel."""

    channels: int
    high: int
    wide: int
    filters: int
    kernel: int
    stride: int
    padding: int
    pool: int  # 1: none
    first: bool

    @property
    def rows(self) -> int:
        return (self.high + 2 * self.padding - self.kernel) // self.stride + 1

    @property
    def columns(self) -> int:
        return (self.wide + 2 * self.padding - self.kernel) // self.stride + 1

    @property
    def pooled(self) -> tuple[int, int]:
        return self.rows // self.pool, self.columns // self.pool

    @property
    def features(self) -> int:
        """Results of one image."""
        high, wide = self.pooled
        return high * wide * self.filters

    @property
    def taps(self) -> int:
        return self.kernel * self.kernel * self.channels

    @property
    def patches(self) -> int:
        """Of one image."""
        return self.rows * self.columns


def stages_of(layers: Sequence[nn.Module], shape: tuple[int, ...]) -> list[Stage] | None:
    """The stages that `layers` are made of for inputs of `shape`, if that is all they are made of."""
    stages: list[Stage] = []
    channels, high, wide = shape
    at = 0
    while at < len(layers):
        conv, between = layers[at], layers[at + 1 : at + 3]
        pool, used = pooling(between)
        if not used or not is_plain_convolution(conv, channels):
            return None
        assert isinstance(conv, nn.Conv2d) and isinstance(conv.padding, tuple)
        stage = Stage(
            channels,
            high,
            wide,
            conv.out_channels,
            conv.kernel_size[0],
            conv.stride[0],
            conv.padding[0],
            pool,
            not at,
        )
        if min(stage.pooled) < 1:
            return None
        stages.append(stage)
        channels, (high, wide), at = conv.out_channels, stage.pooled, at + 1 + used
    return stages


def pooling(layers: Sequence[nn.Module]) -> tuple[int, int]:
    """(size of the squares, layers used) of a ReLU with or without pooling at the beginning; (0, 0): none."""
    kinds = [type(layer) for layer in layers]
    squares = [is_square_pooling(layer) for layer in layers]
    if kinds == [nn.ReLU, nn.MaxPool2d] or kinds == [nn.MaxPool2d, nn.ReLU]:
        size = max(squares)
        return (size, 2) if size else (0, 0)
    return (1, 1) if kinds[:1] == [nn.ReLU] else (0, 0)


def is_square_pooling(layer: nn.Module) -> int:
    """The size of the squares that a max pooling divides its input into; 0: it does not."""
    if type(layer) is not nn.MaxPool2d or layer.ceil_mode or layer.return_indices:
        return 0
    sizes = {*_pair(layer.kernel_size), *_pair(layer.stride)}
    plain = _pair(layer.padding) == (0, 0) and _pair(layer.dilation) == (1, 1)
    return sizes.pop() if len(sizes) == 1 and plain else 0


def is_plain_convolution(layer: nn.Module, channels: int) -> bool:
    if type(layer) is not nn.Conv2d or layer.bias is None or isinstance(layer.padding, str):
        return False
    square = all(len(set(pair)) == 1 for pair in (layer.kernel_size, layer.stride, layer.padding))
    zeros = layer.padding_mode == "zeros" and layer.groups == 1 and layer.dilation == (1, 1)
    return square and zeros and layer.in_channels == channels


def _pair(value: int | tuple[int, int]) -> tuple[int, int]:
    return value if isinstance(value, tuple) else (value, value)


class Group:
    """Some images of a batch: where their patches, values and errors lie."""

    def __init__(self, stage: Stage, inputs: Tensor, values: Tensor, memory: Tensor):
        many, taps = len(inputs) * stage.patches, stage.taps
        self.values = values
        self.patches = memory[: many * taps].view((taps, many) if stage.first else (many, taps))
        self._cut = cut(stage, inputs)
        self._laid = self.patches.view(self._cut.shape)

    def unroll(self) -> None:
        """Copy the patches out of the images into the matrix."""
        self._laid.copy_(self._cut)


def cut(s: Stage, inputs: Tensor) -> Tensor:
    """All patches as a view of the images that they overlap in."""
    count, high, wide, k = len(inputs), s.high + 2 * s.padding, s.wide + 2 * s.padding, s.kernel
    image = high * wide * s.channels
    if s.first:
        shape: tuple[int, ...] = (s.channels, k, k, count, s.rows, s.columns)
        steps: tuple[int, ...] = (high * wide, wide, 1, image, s.stride * wide, s.stride)
    else:
        line = wide * s.channels
        shape = (count, s.rows, s.columns, k, k * s.channels)
        steps = (image, s.stride * line, s.stride * s.channels, line, 1)
    return inputs.as_strided(shape, steps, inputs.storage_offset())


class Convolution:
    """Memory and views for one stage and a fixed number of images; results go to `out`."""

    def __init__(self, stage: Stage, count: int, inputs: Tensor, margin: int):
        self.stage, self.margin = stage, margin
        dtype = inputs.dtype
        values = torch.empty(count * stage.patches, stage.filters, dtype=dtype)
        self._pixels = values.view(count, stage.rows, stage.columns, stage.filters)
        high, wide = (size + 2 * margin for size in stage.pooled)
        self.out = torch.zeros(count, high, wide, stage.filters, dtype=dtype)
        self.errors = torch.zeros_like(self.out)  # of `out`
        each = max(1, min(count, PATCHES_BYTES // (stage.patches * stage.taps * dtype.itemsize)))
        memory = torch.empty(each * stage.patches * stage.taps, dtype=dtype)
        self._patch_errors = memory if stage.first else torch.empty_like(memory)
        parts = zip(_parts(inputs, each), _parts(values, each * stage.patches), strict=True)
        self._groups = [Group(stage, images, part, memory) for images, part in parts]
        self._each = each

    def forward(self, weights: Tensor, bias: Array) -> None:
        for group in self._groups:
            group.unroll()
            if self.stage.first:
                torch.mm(group.patches.t(), weights, out=group.values)
            else:
                torch.mm(group.patches, weights.t(), out=group.values)
        loops.pool(_lines(self._pixels), bias, self.stage.pool, self.margin, _lines(self.out))

    def backward(
        self, weights: Tensor, into: tuple[Tensor, Array], scale: float, below: Convolution | None
    ) -> None:
        """into += scale * the gradient of (weights, bias); the errors of the inputs go to the stage below."""
        self._clear_rest()
        pixels, out, errors = _lines(self._pixels), _lines(self.out), _lines(self.errors)
        number = out.dtype.type(scale)
        loops.unpool(errors, out, self.stage.pool, self.margin, pixels, number, into[1])
        if below is not None:
            for group, inputs in zip(self._groups, _parts(below.errors, self._each), strict=True):
                self._send_down(group, weights, inputs)
        for group in self._groups:
            if len(self._groups) > 1:  # else the patches are still there
                group.unroll()
            if self.stage.first:
                into[0].addmm_(group.patches, group.values, alpha=scale)
            else:
                into[0].addmm_(group.values.t(), group.patches, alpha=scale)

    def _send_down(self, group: Group, weights: Tensor, inputs: Tensor) -> None:
        s = self.stage
        errors = self._patch_errors[: group.patches.numel()].view_as(group.patches)
        torch.mm(group.values, weights, out=errors)
        patches = errors.view(-1, s.rows, s.columns, s.taps).numpy()
        loops.roll(patches, s.kernel, s.stride, s.channels, _lines(inputs))

    def _clear_rest(self) -> None:
        """Pixels that are in no square have no error."""
        for axis, size in ((1, self.stage.rows), (2, self.stage.columns)):
            if rest := size % self.stage.pool:
                self._pixels.narrow(axis, size - rest, rest).zero_()


def _parts(tensor: Tensor, each: int) -> list[Tensor]:
    return [tensor[low : low + each] for low in range(0, len(tensor), each)]


def _lines(images: Tensor) -> Array:
    """(image, row, column * channel)"""
    lines: Array = images.flatten(2).numpy()
    return lines
