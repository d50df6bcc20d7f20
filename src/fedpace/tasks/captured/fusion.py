"""Operations put together: two that are one pass over memory, and copies that are not needed."""

from __future__ import annotations

from collections import Counter

import torch
from torch import Tensor

from fedpace.tasks.captured.kernels import own_step
from fedpace.tasks.captured.record import Call, Recording, geometry, memory

aten = torch.ops.aten


def fused(calls: list[Call], recording: Recording) -> list[Call]:
    """The same computation in fewer calls."""
    uses = Counter(memory(tensor) for call in calls for tensor in call.inputs)
    uses.update(memory(result) for result in recording.gradients if result is not None)
    makers = {memory(tensor): call for call in calls for tensor in call.outputs}
    changed: dict[int, list[Call]] = {}  # by the identity of a call: what stands in its place
    for call in calls:
        before = makers.get(memory(call.args[0])) if call.args and isinstance(call.args[0], Tensor) else None
        if before is None or uses[memory(call.args[0])] != 1 or id(before) in changed:
            continue
        joined = _joined(before, call)
        if joined is not None:
            first, second = joined
            changed |= {id(before): first, id(call): second}
    return [part for call in calls for part in changed.get(id(call), [call])]


def _joined(before: Call, call: Call) -> tuple[list[Call], list[Call]] | None:
    """What stands in the place of two calls, where nothing else uses the result of the first."""
    pair = before.operation, call.operation
    if pair == (aten.native_group_norm.default, aten.relu.default):
        outputs = (call.outputs[0], *before.outputs[1:])
        return _if_own(Call(before.operation, before.args, {"relu": True}, outputs))
    if pair == (aten.threshold_backward.default, aten.native_group_norm_backward.default):
        errors, reached, threshold = before.args
        joined = Call(call.operation, (errors, *call.args[1:]), {"reached": reached}, call.outputs)
        return None if threshold or not _if_own(joined) else ([], [joined])
    if pair == (aten.stack.default, aten.clone.default):
        return _straight(before, call)
    return None


def _if_own(call: Call) -> tuple[list[Call], list[Call]] | None:
    return ([call], []) if own_step(call, lambda _: False) else None


def _straight(stack: Call, clone: Call) -> tuple[list[Call], list[Call]] | None:
    """Tensors that are stacked and then copied in another order of axes go there at once."""
    whole, turned, out = stack.outputs[0], clone.args[0], clone.outputs[0]
    places = dict(zip(_axes(turned), out.stride(), strict=True))
    if sorted(_axes(whole)) != sorted(_axes(turned)) or len(places) < turned.ndim:
        return None
    strides = [places[axis] for axis in _axes(whole)]
    along = (stack.args[1] if len(stack.args) > 1 else 0) % whole.ndim
    step = strides.pop(along)
    made = Call(aten.empty.memory_format, (), {}, (out,))
    copies = []
    for k, part in enumerate(stack.args[0]):
        target = torch.as_strided(out, part.shape, strides, out.storage_offset() + k * step)
        copies.append(Call(aten.copy_.default, (target, part), {}, (target,)))
    return [], [made, *copies]


def _axes(tensor: Tensor) -> list[tuple[int, int]]:
    """Stride and size: what an axis is told by in another order."""
    return list(zip(tensor.stride(), tensor.shape, strict=True))
