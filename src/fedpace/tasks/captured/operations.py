"""How one operation is repeated into memory that is already there."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, partial
from typing import Any

import torch
from torch._ops import OpOverload

from fedpace.tasks.captured.convolutions import Kept, convolution_loops, convolution_step
from fedpace.tasks.captured.kernels import Live, Step, own_loop, own_step
from fedpace.tasks.captured.record import Call, name_of

aten = torch.ops.aten

UNFILLED = {aten.empty_like.default, aten.new_empty.default, aten.new_empty_strided.default}
UNFILLED |= {aten.empty.memory_format, aten.empty_strided.default}
ZEROS = {aten.zeros_like.default, aten.new_zeros.default, aten.zeros.default}
OTHERS = {aten.ones_like.default, aten.full_like.default, aten.new_ones.default, aten.new_full.default}
BY_SHAPE = UNFILLED | ZEROS | OTHERS  # of their inputs they read the shape alone

DIRECT: dict[OpOverload, Any] = {
    aten.mm.out: torch.mm,
    aten.addmm.out: torch.addmm,
    aten.bmm.out: torch.bmm,
    aten.mul.out: torch.mul,
}
DIRECT |= {aten.add.out: torch.add, aten.sub.out: torch.sub}  # the same, called without a look at the schema


def into(call: Call, live: Live, kept: Kept) -> Step | None:
    """The operation with its result in its outputs; None: there is none that writes there."""
    outputs, own = call.outputs, own_step(call, live) or convolution_step(call, kept)
    if own is not None:
        return own
    if call.operation in UNFILLED:
        return _nothing
    if call.operation in ZEROS:
        return outputs[0].zero_
    if call.operation in (aten.clone.default, aten._to_copy.default):
        return partial(outputs[0].copy_, call.args[0])
    writing = _writing(call.operation)
    if writing is None or len(writing[1]) != len(outputs):
        return None
    operation, names = writing
    direct: Any = DIRECT.get(operation, operation)
    function = partial(direct, *call.args, **_known(operation, call.kwargs))
    return partial(function, **dict(zip(names, outputs, strict=True)))


def compiled_for(calls: Iterable[Call]) -> set[Any]:
    """The compiled loops that a replay takes."""
    return {loop for call in calls for loop in (*own_loop(call), *convolution_loops(call))}


def _nothing() -> None:
    """Of memory that is written later."""


def _known(operation: OpOverload, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Without those that only say where new memory would be."""
    names = {argument.name for argument in operation._schema.arguments}
    return {name: value for name, value in kwargs.items() if name in names}


@cache
def _writing(operation: OpOverload) -> tuple[OpOverload, list[str]] | None:
    """The variant with a kernel of its own that writes its result to given tensors, and their names."""
    packet = operation.overloadpacket
    plain = [argument.name for argument in operation._schema.arguments]
    for name in packet.overloads():
        other: OpOverload = getattr(packet, name)
        outs = [argument.name for argument in other._schema.arguments if argument.is_out]
        rest = [argument.name for argument in other._schema.arguments if not argument.is_out]
        if outs and rest == plain[: len(rest)] and _has_kernel(other):
            return other, outs
    return None


def _has_kernel(operation: OpOverload) -> bool:
    """Others call the plain operation and copy its result."""
    return torch._C._dispatch_has_kernel_for_dispatch_key(name_of(operation), "CPU")
