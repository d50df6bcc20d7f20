"""What every recorded operation is to a replay: nothing, a constant, or a step."""

from __future__ import annotations

import torch

from fedpace.tasks.captured.operations import BY_SHAPE
from fedpace.tasks.captured.record import (
    Call,
    Recording,
    Unfit,
    geometry,
    memory,
    name_of,
    substituted,
    tensors,
)

READS_DATA = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)


def steps_of(recording: Recording, moving: set[int]) -> list[Call]:
    """The operations that a replay repeats, in their order.

    Views are left out, since every tensor of a replay has its shape once for all, and what depends on neither the
    batch nor the memories `moving` is constant: it keeps the values that were recorded.
    """
    changing = moving | set(map(memory, tensors(recording.batch)))
    changing |= {memory(tensor) for call in recording.calls for tensor in written(call)}
    steps = []
    for call in recording.calls:
        _require_replayable(call)
        if is_view(call):
            continue
        if _repeats(call, changing):
            changing |= set(map(memory, call.outputs))
            steps.append(call)
    return _used(steps, recording)


def _repeats(call: Call, changing: set[int]) -> bool:
    """Whether the result is another every time."""
    read = call.outputs if call.operation in BY_SHAPE else (*call.inputs, *call.outputs)
    acts = call.operation._schema.is_mutable or _is_random(call)
    return acts or any(memory(tensor) in changing for tensor in read)


def _used(steps: list[Call], recording: Recording) -> list[Call]:
    """Without those whose result nobody reads, such as the loss itself."""
    needed = {memory(gradient) for gradient in recording.gradients if gradient is not None}
    kept: list[Call] = []
    for call in reversed(steps):
        acts = call.operation._schema.is_mutable or _is_random(call)
        if acts or any(memory(tensor) in needed for tensor in call.outputs):
            needed |= set(map(memory, call.inputs))
            kept.append(call)
    return kept[::-1]


def signature(recording: Recording) -> list[object]:
    """Two recordings with the same signature differ in the numbers in their tensors alone.

    Memories are named by when they first appear; those that were there before, by their address.
    """
    made = {memory(tensor) for call in recording.calls for tensor in call.outputs if not is_view(call)}
    made |= set(map(memory, tensors(recording.batch)))
    names: dict[int, int] = {}

    def named(tensor: torch.Tensor) -> object:
        address, *shape = geometry(tensor)
        return (names.setdefault(address, len(names)) if address in made else ("there", address)), *shape

    passes = [
        (name_of(call.operation), repr(substituted((call.args, call.kwargs, call.outputs), named)))
        for call in recording.calls
    ]
    return [*passes, repr(substituted(recording.gradients, named))]


def is_view(call: Call) -> bool:
    """Whether it computes nothing: its outputs lie in the memory of its inputs, or it only changes a shape."""
    if torch.Tag.inplace_view in call.operation.tags:
        return True
    held = set(map(memory, call.inputs))
    return not call.operation._schema.is_mutable and all(memory(tensor) in held for tensor in call.outputs)


def written(call: Call) -> list[torch.Tensor]:
    """The inputs that an operation changes."""
    found: list[torch.Tensor] = []
    for k, argument in enumerate(call.operation._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = call.kwargs.get(argument.name, call.args[k] if k < len(call.args) else None)
            found += tensors(value)
    return found


def _is_random(call: Call) -> bool:
    return torch.Tag.nondeterministic_seeded in call.operation.tags


def _require_replayable(call: Call) -> None:
    if any(tag in call.operation.tags for tag in READS_DATA):
        raise Unfit(f"{call.operation} decides by what the data is")
