"""Convolutions of images with channels last as matrix products of numbers that lie side by side.

A 3x3 kernel at every pixel goes through the points of Winograd's algorithm. Kernels of one pixel, and the gradients of
those that step over pixels, go through patches: all values that a result depends on, as rows of a matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fedpace.tasks.captured import image_loops
from fedpace.tasks.captured.image_loops import LANES, TAPS_TO_POINTS, Images
from fedpace.tasks.captured.record import Call
from fedpace.tasks.fast.compiled import Array

aten = torch.ops.aten
Step = Callable[[], object]
Kept = dict[tuple[int, ...], Tensor]  # points that the forward pass leaves for the way back

MIN_TILES = 32  # below it transforming kernels costs more than the products that are saved
TO_POINTS = torch.from_numpy(TAPS_TO_POINTS)
Loops = tuple[Callable[..., object], ...]
THERE: Loops = (image_loops.into_points, image_loops.from_points)
BACK: Loops = (image_loops.into_errors, image_loops.from_errors)
STRIDED_BACK: Loops = (image_loops.into_patches, image_loops.from_patches)


class RecordedConvolution(NamedTuple):
    """The input, square kernels, and the result or its gradient."""

    x: Tensor
    kernel: Tensor
    y: Tensor
    stride: int
    pad: int

    @property
    def size(self) -> int:
        return self.kernel.shape[2]

    @property
    def key(self) -> tuple[int, ...]:
        """Of its points: tensors of a plan are one object each."""
        return id(self.x), self.pad

    @property
    def has_points(self) -> bool:
        """Whether there are enough tiles, and channels come in full vectors."""
        full = self.kernel.shape[0] % LANES == self.kernel.shape[1] % LANES == 0
        return (
            self.size == 3 and self.stride == 1 and self.pad <= 2 and full and self.above.tiles >= MIN_TILES
        )

    @property
    def has_patches(self) -> bool:
        """Whether a value is in few of them."""
        few = self.size <= 2 * self.stride and self.kernel.shape[1] % LANES == 0
        return self.size > self.pad and (few or self.size == 1)

    @property
    def below(self) -> Images:
        """The input, cut into tiles."""
        return self._images(self.x, self.pad, *self.above[-2:])

    @property
    def above(self) -> Images:
        return self._images(self.y, 0, -(-self.y.shape[2] // 4), -(-self.y.shape[3] // 4))

    @property
    def by_result(self) -> Images:
        """The input, cut into patches."""
        return self._images(self.x, self.pad, *self.y.shape[2:])

    @staticmethod
    def _images(images: Tensor, pad: int, down: int, across: int) -> Images:
        samples, channels, high, wide = images.shape
        return Images(samples, high, wide, channels, pad, down, across)


def convolution_step(call: Call, kept: Kept) -> Step | None:
    """A convolution or its gradients, written to their outputs; None: it is none of those that are known here."""
    if call.operation is aten.convolution.default:
        x, kernel, bias, *settings = call.args
        return _forward(_known(x, kernel, call.outputs[0], settings), bias, call.outputs[0], kept)
    if call.operation is aten.convolution_backward.default:
        errors, x, kernel, _, *settings, wanted = call.args
        found = iter(call.outputs)
        outputs = [next(found) if asked else None for asked in wanted]
        return _backward(_known(x, kernel, errors, settings), outputs, kept)
    return None


def convolution_loops(call: Call) -> Loops:
    """The compiled loops that it takes."""
    if convolution_step(call, {}) is None:
        return ()
    back = call.operation is aten.convolution_backward.default
    kernel, stride = (call.args[2], call.args[4]) if back else (call.args[1], call.args[3])
    if kernel.shape[2] == 1:
        return ()
    return THERE if not back else BACK if stride[0] == 1 else STRIDED_BACK


def _known(x: Tensor, kernel: Tensor, y: Tensor, settings: list[Any]) -> RecordedConvolution | None:
    stride, pad, dilation, transposed, _, groups = settings
    plain = not transposed and groups == 1 and set(dilation) == {1} and kernel.is_contiguous()
    square = (
        kernel.ndim == 4 and kernel.shape[2] == kernel.shape[3] and len(set(stride)) == len(set(pad)) == 1
    )
    last = all(t.dtype is torch.float32 and _is_last(t) for t in (x, y))
    if not (plain and square and last):
        return None
    found = RecordedConvolution(x, kernel, y, stride[0], pad[0])
    return found if found.has_points or found.has_patches else None


def _is_last(images: Tensor) -> bool:
    return images.ndim == 4 and images.is_contiguous(memory_format=torch.channels_last)


def _forward(of: RecordedConvolution | None, bias: Tensor | None, out: Tensor, kept: Kept) -> Step | None:
    if of is not None and of.has_points:
        bias = torch.empty(0) if bias is None else bias
        return partial(_by_points, of, bias, out, image_loops.scratch(), kept)
    return None if of is None or of.size > 1 else partial(_by_pixels, of, bias, out)


def _backward(of: RecordedConvolution | None, outputs: list[Tensor | None], kept: Kept) -> Step | None:
    below, kernels, shifts = outputs
    if of is None or (below is not None and not _is_last(below)):
        return None
    by_points = partial(_points_back, of, kept, image_loops.scratch())
    gradients = by_points if of.has_points else partial(_patches_back, of)

    def step() -> None:
        gradients(below, kernels)
        if shifts is not None:
            torch.sum(of.y, (0, 2, 3), out=shifts)

    return step


def _by_points(of: RecordedConvolution, bias: Tensor, out: Tensor, s: Array, kept: Kept) -> None:
    points = kept[of.key] = _points(of, s)
    kernels = kept[(id(of.kernel),)] = _kernel_points(of.kernel)
    sums = torch.bmm(points, kernels.transpose(1, 2))
    image_loops.from_points(_flat(sums), of.above, bias.numpy(), _flat(out), s)


def _points_back(
    of: RecordedConvolution, kept: Kept, s: Array, below: Tensor | None, kernels: Tensor | None
) -> None:
    """Of an input or a kernel with two uses the second one computes its points again."""
    points, kernel_points = kept.pop(of.key, None), kept.pop((id(of.kernel),), None)
    errors = torch.empty(36, of.above.tiles, of.above.channels)
    image_loops.into_errors(_flat(of.y), of.above, _flat(errors), s)
    if kernels is not None:
        products = torch.bmm(errors.transpose(1, 2), _points(of, s) if points is None else points)
        taps = torch.mm(TO_POINTS.t(), products.view(36, -1))
        kernels.copy_(taps.view(3, 3, *kernels.shape[:2]).permute(2, 3, 0, 1))
    if below is not None:
        kernel_points = _kernel_points(of.kernel) if kernel_points is None else kernel_points
        image_loops.from_errors(_flat(torch.bmm(errors, kernel_points)), of.below, _flat(below), s)


def _points(of: RecordedConvolution, s: Array) -> Tensor:
    points = torch.empty(36, of.below.tiles, of.below.channels)
    image_loops.into_points(_flat(of.x), of.below, _flat(points), s)
    return points


def _kernel_points(kernel: Tensor) -> Tensor:
    """G w G' of every kernel: (36, outputs, inputs)"""
    return torch.mm(TO_POINTS, kernel.view(-1, 9).t()).view(36, *kernel.shape[:2])


def _by_pixels(of: RecordedConvolution, bias: Tensor | None, out: Tensor) -> None:
    """By kernels of one pixel; for larger ones torch is as fast."""
    if bias is None:
        torch.mm(_patches(of), _kernel_rows(of.kernel).t(), out=_pixels(out))
    else:
        torch.addmm(bias, _patches(of), _kernel_rows(of.kernel).t(), out=_pixels(out))


def _patches_back(of: RecordedConvolution, below: Tensor | None, kernels: Tensor | None) -> None:
    errors = _pixels(of.y)
    if kernels is not None:
        rows = torch.mm(errors.t(), _patches(of))
        kernels.copy_(rows.view(_last(kernels).shape).permute(0, 3, 1, 2))
    if below is not None and of.size == of.stride == 1:
        torch.mm(errors, _kernel_rows(of.kernel), out=_pixels(below))
    elif below is not None:
        _from_patches(of, torch.mm(errors, _kernel_rows(of.kernel)), below)


def _patches(of: RecordedConvolution) -> Tensor:
    if of.size == 1:
        return _last(of.x)[:, :: of.stride, :: of.stride].reshape(-1, of.x.shape[1])
    patches = torch.empty(of.by_result.tiles, of.size**2 * of.x.shape[1])
    image_loops.into_patches(_flat(of.x), of.by_result, of.size, of.stride, _flat(patches))
    return patches


def _from_patches(of: RecordedConvolution, patches: Tensor, below: Tensor) -> None:
    if of.size > 1:
        image_loops.from_patches(_flat(patches), of.by_result, of.size, of.stride, _flat(below))
        return
    below.zero_()
    taken = _last(below)[:, :: of.stride, :: of.stride]
    taken.copy_(patches.view(taken.shape))


def _kernel_rows(kernel: Tensor) -> Tensor:
    """(outputs, taps by inputs)"""
    return _last(kernel).reshape(len(kernel), -1)


def _last(images: Tensor) -> Tensor:
    return images.permute(0, 2, 3, 1)


def _pixels(images: Tensor) -> Tensor:
    """Rows of channels."""
    return _last(images).view(-1, images.shape[1])


def _flat(tensor: Tensor) -> Array:
    """Its numbers in the order in which they lie."""
    return torch.as_strided(tensor, (tensor.numel(),), (1,), tensor.storage_offset()).numpy()
