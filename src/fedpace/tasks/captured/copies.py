"""Copies that a replay does not need."""

from __future__ import annotations

from collections import Counter

import torch
from torch import Tensor

from fedpace.tasks.captured.record import Call, Recording, memory

aten = torch.ops.aten


def without_copies(calls: list[Call], recording: Recording) -> list[Call]:
    """Tensors that are stacked, then copied in another order of axes, go there at once: the way back of `unbind`."""
    uses = Counter(memory(tensor) for call in calls for tensor in call.inputs)
    uses.update(memory(result) for result in recording.gradients if result is not None)
    stacks = {memory(call.outputs[0]): call for call in calls if call.operation is aten.stack.default}
    changed: dict[int, list[Call]] = {}  # by the identity of a call: what stands in its place
    for call in calls:
        if call.operation is aten.clone.default and uses[memory(call.args[0])] == 1:
            stack = stacks.get(memory(call.args[0]))
            straight = None if stack is None else _straight(stack, call)
            if straight is not None:
                changed |= {id(stack): [], id(call): straight}
    return [part for call in calls for part in changed.get(id(call), [call])]


def _straight(stack: Call, clone: Call) -> list[Call] | None:
    """Memory for the copy, and every part copied to its place there; None: the copy is no change of order."""
    whole, turned, out = stack.outputs[0], clone.args[0], clone.outputs[0]
    places = dict(zip(_axes(turned), out.stride(), strict=True))
    if sorted(_axes(whole)) != sorted(_axes(turned)) or len(places) < turned.ndim:
        return None
    strides = [places[axis] for axis in _axes(whole)]
    along = (stack.args[1] if len(stack.args) > 1 else 0) % whole.ndim
    step = strides.pop(along)
    copies = [Call(aten.empty.memory_format, (), {}, (out,))]
    for k, part in enumerate(stack.args[0]):
        target = torch.as_strided(out, part.shape, strides, out.storage_offset() + k * step)
        copies.append(Call(aten.copy_.default, (target, part), {}, (target,)))
    return copies


def _axes(tensor: Tensor) -> list[tuple[int, int]]:
    """Stride and size, by which an axis is known in another order."""
    return list(zip(tensor.stride(), tensor.shape, strict=True))
