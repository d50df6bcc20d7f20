"""Which operations have a compiled loop of our own, and on which tensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch._ops import OpOverload

from fedpace.tasks.captured import loops
from fedpace.tasks.captured.record import Call
from fedpace.tasks.fast.compiled import Array

aten = torch.ops.aten
Step = Callable[[], object]
KNOWN = (torch.float32, torch.int64)
WIDE = 64  # numbers that a loop should at least run over
Live = Callable[[Tensor], bool]  # whether a tensor's memory is another every time


class Laid(NamedTuple):
    """All numbers of a tensor, in the order in which they lie, as an array of this shape."""

    tensor: Tensor
    shape: tuple[int, ...]

    def array(self) -> Array:
        strides = [math.prod(self.shape[k + 1 :]) for k in range(len(self.shape))]
        return torch.as_strided(self.tensor, self.shape, strides, self.tensor.storage_offset()).numpy()


Form = tuple[Callable[..., object], list[Any]]  # a loop and its arguments


def own_step(call: Call, live: Live) -> Step | None:
    """The operation as a compiled loop; None: there is none for these tensors."""
    form = _form(call)
    return None if form is None else _bound(*form, live)


def own_loop(call: Call) -> tuple[Callable[..., object], ...]:
    """The compiled loop that it is, if it is one."""
    form = _form(call)
    return () if form is None else form[:1]


def _form(call: Call) -> Form | None:
    find = FORMS.get(call.operation)
    if find is None or any(t.dtype not in KNOWN for t in (*call.inputs, *call.outputs)):
        return None
    return find(call)


def _bound(loop: Callable[..., object], parts: list[Any], live: Live) -> Step:
    """Arrays are made once where memory stays, and for every step where it does not."""
    moving = [k for k, part in enumerate(parts) if isinstance(part, Laid) and live(part.tensor)]
    fixed = [part.array() if isinstance(part, Laid) else part for part in parts]
    if not moving:
        return partial(loop, *fixed)

    def step() -> None:
        for k in moving:
            fixed[k] = parts[k].array()
        loop(*fixed)

    return step


def _flat(tensor: Tensor) -> Laid:
    return Laid(tensor, (tensor.numel(),))


def _dense(*tensors: Tensor) -> bool:
    """Whether they are contiguous, or all images with channels last."""
    return all(t.is_contiguous() for t in tensors) or all(map(_channels_last, tensors))


def _channels_last(tensor: Tensor) -> bool:
    return tensor.ndim == 4 and tensor.is_contiguous(memory_format=torch.channels_last)


def _relu(call: Call) -> Form | None:
    x, out = call.args[0], call.outputs[0]
    return (loops.active, [_flat(x), _flat(out)]) if _dense(x, out) else None


def _add(call: Call) -> Form | None:
    x, y, out = *call.args[:2], call.outputs[0]
    alike = isinstance(y, Tensor) and x.shape == y.shape and not call.kwargs and _dense(x, y, out)
    return (loops.add, [_flat(x), _flat(y), _flat(out)]) if alike else None


def _sum(call: Call) -> Form | None:
    x, out = call.args[0], call.outputs[0]
    if list(call.args[1] or ()) != [0] or call.kwargs or not _dense(x, out) or x.ndim < 2:
        return None
    return loops.sum_rows, [Laid(x, (len(x), out.numel())), _flat(out)]


def _layer_norm(call: Call) -> Form | None:
    x, shape, gain, shift, epsilon = call.args
    if gain is None or shift is None or not all(t.is_contiguous() for t in (x, gain, shift)):
        return None
    wide, (out, mean, steep) = math.prod(shape), call.outputs
    parts = [_by(x, wide), _flat(gain), _flat(shift), epsilon]
    return loops.layer_norm, [*parts, _by(out, wide), _flat(mean), _flat(steep)]


def _layer_norm_back(call: Call) -> Form | None:
    errors, x, shape, mean, steep, gain, shift, wanted = call.args
    if gain is None or shift is None or not all(wanted):
        return None
    if not all(t.is_contiguous() for t in (errors, x, gain)):
        return None
    wide, (below, gains, shifts) = math.prod(shape), call.outputs
    parts = [_by(errors, wide), _by(x, wide), _flat(mean), _flat(steep), _flat(gain)]
    return loops.layer_norm_back, [*parts, _by(below, wide), _flat(gains), _flat(shifts)]


def _group_norm(call: Call) -> Form | None:
    x, gain, shift, samples, channels, pixels, groups, epsilon = call.args
    out, mean, steep = call.outputs
    if gain is None or shift is None or not (_channels_last(x) and _channels_last(out)):
        return None
    images, by_group = (samples, pixels, channels), (samples, groups)
    parts = [Laid(x, images), _flat(gain), _flat(shift), epsilon, Laid(out, images)]
    return loops.group_norm, [*parts, Laid(mean, by_group), Laid(steep, by_group), _work(channels, pixels)]


def _group_norm_back(call: Call) -> Form | None:
    errors, x, mean, steep, gain, samples, channels, pixels, groups, wanted = call.args
    if gain is None or not all(wanted) or not all(map(_channels_last, (errors, x, call.outputs[0]))):
        return None
    below, gains, shifts = call.outputs
    images, by_group = (samples, pixels, channels), (samples, groups)
    parts = [Laid(errors, images), Laid(x, images), Laid(mean, by_group), Laid(steep, by_group), _flat(gain)]
    work = _work(channels, pixels)
    return loops.group_norm_back, [*parts, Laid(below, images), _flat(gains), _flat(shifts), work]


def _work(channels: int, pixels: int) -> Array:
    """Three rows of as many channels as come in some pixels, which divide those of an image."""
    together = 1
    while together * channels < WIDE and pixels % (2 * together) == 0:
        together *= 2
    return np.empty((3, together * channels), np.float32)


def _by(tensor: Tensor, wide: int) -> Laid:
    return Laid(tensor, (tensor.numel() // wide, wide))


def _embedding(call: Call) -> Form | None:
    table, picks, out = *call.args[:2], call.outputs[0]
    if not all(t.is_contiguous() for t in (table, picks, out)):
        return None
    return loops.take_rows, [Laid(table, tuple(table.shape)), _flat(picks), _by(out, table.shape[1])]


def _embedding_back(call: Call) -> Form | None:
    errors, picks, _, padding, by_frequency = call.args
    out = call.outputs[0]
    if padding >= 0 or by_frequency or not all(t.is_contiguous() for t in (errors, picks)):
        return None
    return loops.add_rows, [_by(errors, out.shape[1]), _flat(picks), Laid(out, tuple(out.shape))]


FORMS: dict[OpOverload, Callable[[Call], Form | None]] = {
    aten.relu.default: _relu,
    aten.add.Tensor: _add,
    aten.sum.dim_IntList: _sum,
    aten.native_layer_norm.default: _layer_norm,
    aten.native_layer_norm_backward.default: _layer_norm_back,
    aten.native_group_norm.default: _group_norm,
    aten.native_group_norm_backward.default: _group_norm_back,
    aten.embedding.default: _embedding,
    aten.embedding_dense_backward.default: _embedding_back,
}
