"""A recorded pass, ready to be repeated: steps with their tensors in place."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, UntypedStorage

from fedpace.tasks.captured.convolutions import Kept
from fedpace.tasks.captured.kernels import Step
from fedpace.tasks.captured.operations import into
from fedpace.tasks.captured.placement import placed
from fedpace.tasks.captured.record import Call, Geometry, Recording, geometry, memory, substituted, tensors

NOTHING = torch.empty(0).untyped_storage()


class ReplayedPass:
    """The gradient of a loss on batches of one shape, written to the vector `gradient`."""

    def __init__(self, batch: list[Tensor], steps: list[Step], gradient: Tensor) -> None:
        self._batch, self._steps, self.gradient = batch, steps, gradient
        self._shapes = [(tensor.shape, tensor.dtype) for tensor in batch]

    def takes(self, batch: Any) -> bool:
        return [(tensor.shape, tensor.dtype) for tensor in tensors(batch)] == self._shapes

    @torch.no_grad()
    def __call__(self, batch: Any) -> Tensor:
        for buffer, tensor in zip(self._batch, tensors(batch), strict=True):
            buffer.copy_(tensor)
        for step in self._steps:
            step()
        return self.gradient


@torch.no_grad()
def planned(recording: Recording, calls: list[Call], gradient: Tensor, slots: list[Tensor]) -> ReplayedPass:
    """`slots` are the parts of `gradient` in the parameters' shapes."""
    return ReplayedPass(
        list(tensors(recording.batch)), Planner(calls, recording.gradients, slots).steps(), gradient
    )


class Planner:
    """Gives every recorded tensor its place, and every operation its tensors."""

    def __init__(self, calls: list[Call], results: list[Tensor | None], slots: list[Tensor]) -> None:
        self._calls, self._results, self._slots = calls, results, slots
        self._tensors: dict[Geometry, Tensor] = {}
        self._kept: Kept = {}
        self._life = self._lives()
        self._brought = {memory(t) for call in calls if not _in_place(call) for t in call.outputs}
        self._brought -= {memory(t) for call in calls for t in _planned(call)}  # by operations themselves
        self._homes = self._housed()

    def steps(self) -> list[Step]:
        steps: list[Step] = []
        for k, call in enumerate(self._calls):
            steps.append(self._step(call))
            steps += self._released(k)
        return [*steps, *self._last()]

    def _released(self, k: int) -> list[Step]:
        """After its last use, memory that an operation brought goes back while it is in the cache."""
        names = {name for name in self._brought if self._life[name][1] == k}
        return [partial(_let_go, view) for where, view in self._tensors.items() if where[0] in names]

    def _housed(self) -> dict[int, tuple[Tensor, int]]:
        """Where each memory lies: bytes of what, and from which on."""
        made = {memory(t): t.untyped_storage().nbytes() for call in self._calls for t in _planned(call)}
        homes: dict[int, tuple[Tensor, int]] = {}
        for result, slot in zip(self._results, self._slots, strict=True):
            if result is not None and memory(result) in made and _fills(result, slot):
                homes.setdefault(memory(result), (slot, int(slot.storage_offset()) * slot.itemsize))
        lives = {name: life for name, life in self._life.items() if name in made and name not in homes}
        offsets, total = placed(lives, made)
        arena = torch.empty(total, dtype=torch.uint8)
        return homes | {name: (arena, offset) for name, offset in offsets.items()}

    def _lives(self) -> dict[int, tuple[int, int]]:
        lives: dict[int, tuple[int, int]] = {}
        for k, call in enumerate(self._calls):
            for tensor in (*call.inputs, *call.outputs):
                first, _ = lives.get(memory(tensor), (k, k))
                lives[memory(tensor)] = first, k
        for result in self._results:
            if result is not None and memory(result) in lives:
                lives[memory(result)] = lives[memory(result)][0], len(self._calls)
        return lives

    def _here(self, tensor: Tensor) -> Tensor:
        """A recorded tensor in its planned place; one object for all that are alike."""
        where = geometry(tensor)
        if where not in self._tensors:
            self._tensors[where] = self._moved(tensor)
        return self._tensors[where]

    def _moved(self, tensor: Tensor) -> Tensor:
        if memory(tensor) not in self._homes:
            return tensor
        home, begin = self._homes[memory(tensor)]
        start = begin // tensor.itemsize + tensor.storage_offset()
        moved = torch.empty(0, dtype=tensor.dtype)
        return moved.set_(home.untyped_storage(), start, tensor.shape, tensor.stride())

    def _step(self, call: Call) -> Step:
        args, kwargs = substituted((call.args, call.kwargs), self._here)
        outputs = tuple(self._here(tensor) for tensor in call.outputs)
        here = Call(call.operation, args, kwargs, outputs)
        if _in_place(call):
            return partial(call.operation, *args, **kwargs)
        return into(here, self._live, self._kept) or self._fresh(call, here)

    def _live(self, tensor: Tensor) -> bool:
        """Whether it lies in memory that an operation brings anew every time."""
        return id(tensor) in {
            id(self._tensors[where]) for where in self._tensors if where[0] in self._brought
        }

    def _fresh(self, call: Call, here: Call) -> Step:
        """An operation that brings its own memory: all tensors in it are moved there."""
        function = partial(here.operation, *here.args, **here.kwargs)
        followers = [self._followers(tensor) for tensor in call.outputs]

        def step() -> None:
            for output, moved in zip(tensors(function()), followers, strict=True):
                for follow in moved:
                    follow(output.untyped_storage())

        return step

    def _followers(self, output: Tensor) -> list[Callable[[UntypedStorage], object]]:
        name = memory(output)
        later = (t for call in self._calls for t in (*call.inputs, *call.outputs) if memory(t) == name)
        results = (t for t in self._results if t is not None and memory(t) == name)
        views = {id(self._here(t)): self._here(t) for t in (*later, *results)}
        return [_following(view) for view in views.values()]

    def _last(self) -> list[Step]:
        """Gradients that do not lie in their slots are copied there; those that nothing depends on are zero."""
        steps: list[Step] = []
        for result, slot in zip(self._results, self._slots, strict=True):
            if result is None:
                steps.append(slot.zero_)
            elif self._here(result).data_ptr() != slot.data_ptr():
                steps.append(partial(slot.copy_, self._here(result)))
        return steps


def _in_place(call: Call) -> bool:
    """Whether all it does is to change its inputs."""
    held = set(map(memory, call.inputs))
    return call.operation._schema.is_mutable and all(memory(t) in held for t in call.outputs)


def _planned(call: Call) -> tuple[Tensor, ...]:
    """Outputs that are written to memory that is there."""
    own = not call.operation._schema.is_mutable and into(call, _never, {}) is not None
    return tuple(t for t in call.outputs if memory(t)) if own else ()


def _let_go(view: Tensor) -> None:
    view.set_(NOTHING)


def _never(tensor: Tensor) -> bool:
    return False


def _following(view: Tensor) -> Callable[[UntypedStorage], object]:
    offset, shape, strides = view.storage_offset(), view.shape, view.stride()
    return lambda storage: view.set_(storage, offset, shape, strides)


def _fills(result: Tensor, slot: Tensor) -> bool:
    """Whether a gradient is all of its memory, and in the order of its slot."""
    whole = result.untyped_storage().nbytes() == slot.nbytes and result.storage_offset() == 0
    return whole and result.dtype == slot.dtype and result.stride() == slot.stride()
