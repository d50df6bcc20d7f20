"""Samples where the computation is, and a session's batches of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from torch import Tensor

from fedpace.compute.device import Device
from fedpace.tasks.batches import Positions
from fedpace.tasks.encode import Encoded
from fedpace.tasks.examples import Batch, Examples, Tensors

CHUNK_BYTES = 1 << 26  # of samples gathered at a time


@dataclass(frozen=True, slots=True, eq=False)
class Resident:
    """All samples on the device."""

    device: Device
    inputs: Tensor
    targets: Tensor

    def __len__(self) -> int:
        return len(self.targets)

    def take(self, positions: Positions) -> Batch:
        index = self.device.upload(positions)
        return self.device.take(self.inputs, index), self.device.take(self.targets, index)

    def fingerprint(self) -> str:
        raise NotImplementedError("samples are identified where they came from")


@dataclass(frozen=True, slots=True, eq=False)
class Sent:
    """Samples in main memory, whose batches are brought to the device."""

    device: Device
    examples: Examples

    def __len__(self) -> int:
        return len(self.examples)

    def take(self, positions: Positions) -> Batch:
        batch: Batch = self.device.received(self.device.send(self.examples.take(positions)))
        return batch

    def fingerprint(self) -> str:
        return self.examples.fingerprint()


class Placed:
    """Samples on a device as far as its room for data goes, the last used ones; on the host as they are."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._held: dict[Hashable, Resident] = {}
        self._used = 0

    @cached_property
    def _room(self) -> int:
        """Found with the first data: by then it is known how many processes share the device."""
        return self.device.data_bytes

    def __call__(self, key: Hashable, find: Callable[[], Examples]) -> Examples:
        """The samples named `key`, which `find` has."""
        if self.device.is_host:
            return find()
        found = self._held.pop(key, None)
        if found is None:
            examples = find()
            found = self._brought(examples)
            if found is None:
                return Sent(self.device, examples)
        self._held[key] = found
        return found

    def _brought(self, examples: Examples) -> Resident | None:
        if not isinstance(examples, (Tensors, Encoded)):
            return None
        inputs, targets = examples.take(np.arange(len(examples)))
        size = inputs.nbytes + targets.nbytes
        if size > self._room:
            return None
        while self._used + size > self._room:
            oldest = self._held.pop(next(iter(self._held)))
            self._used -= oldest.inputs.nbytes + oldest.targets.nbytes
        self._used += size
        return Resident(self.device, self.device.place(inputs), self.device.place(targets))


def session_batches(
    examples: Examples, order: Positions, ends: Positions, form: Callable[[Tensor], Tensor]
) -> Iterator[Batch]:
    """Batch k is order[ends[k - 1] : ends[k]]; samples in memory are gathered many batches at a time, in that form."""
    if isinstance(examples, (Tensors, Resident)):
        return _gathered(examples, order, ends, form)
    if isinstance(examples, Sent):
        inner = session_batches(examples.examples, order, ends, form)
        return _ahead(examples.device, inner)
    return (examples.take(order[low:high]) for low, high in _pairs(ends))


def _pairs(ends: Positions) -> Iterator[tuple[int, int]]:
    return zip([0, *ends.tolist()], ends.tolist(), strict=False)


def _gathered(
    examples: Tensors | Resident, order: Positions, ends: Positions, form: Callable[[Tensor], Tensor]
) -> Iterator[Batch]:
    """The same batches as one by one, cut from fewer and larger ones."""
    each = max(1, examples.inputs[:1].nbytes + examples.targets[:1].nbytes)
    done = 0
    while done < len(ends):
        low = int(ends[done - 1]) if done else 0
        room = max(low + CHUNK_BYTES // each, int(ends[done]))
        upto = int(np.searchsorted(ends, room, side="right"))
        taken, targets = examples.take(order[low : ends[upto - 1]])
        inputs = form(taken)
        for begin, end in _pairs(ends[done:upto] - low):
            yield inputs[begin:end], targets[begin:end]
        done = upto


def _ahead(device: Device, batches: Iterable[Any]) -> Iterator[Batch]:
    """Every batch is on its way while the one before it is computed with."""
    waiting = None
    for batch in batches:
        sent = device.send(batch)
        if waiting is not None:
            yield device.received(waiting)
        waiting = sent
    if waiting is not None:
        yield device.received(waiting)
