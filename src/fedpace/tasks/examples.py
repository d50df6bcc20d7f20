"""Samples of one client, or of the test set, from which batches are taken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fedpace.tasks.fingerprint import sha256

Batch = tuple[Any, Any]  # inputs and targets, as the network and the loss take them


class Examples(Protocol):
    """A set of samples that can be taken in any order."""

    def __len__(self) -> int: ...

    def take(self, positions: npt.NDArray[np.int64]) -> Batch:
        """These samples as one batch."""
        ...

    def fingerprint(self) -> str:
        """Text that differs for different samples."""
        ...


class ExamplesByClient(Protocol):
    """One set of samples per client."""

    def __len__(self) -> int: ...

    def __getitem__(self, client: int, /) -> Examples: ...


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Tensors:
    """All samples in memory: inputs and targets along the first axis."""

    inputs: Tensor
    targets: Tensor

    def __len__(self) -> int:
        return len(self.targets)

    def take(self, positions: npt.NDArray[np.int64]) -> Batch:
        index = torch.from_numpy(positions)
        return self.inputs.index_select(0, index), self.targets.index_select(0, index)

    def fingerprint(self) -> str:
        return sha256(as_array(self.inputs), as_array(self.targets))


def as_array(tensor: Tensor) -> npt.NDArray[np.generic]:
    """Its content as numpy can hold it: bfloat16 by its bits."""
    plain = tensor.detach().contiguous()
    return (plain.view(torch.int16) if plain.dtype == torch.bfloat16 else plain).numpy()


def of_ends(examples: Examples) -> str:
    """The fingerprint of samples that are not in memory: their number, the first and the last."""
    with seeded():  # a sample may be drawn anew each time it is taken
        ends = examples.take(np.array([0, len(examples) - 1]))
    return f"{len(examples)} {[sha256(as_array(tensor)) for tensor in _tensors(ends)]}"


def _tensors(value: object) -> list[Tensor]:
    """All tensors in nested tuples, lists and dicts."""
    if isinstance(value, Tensor):
        return [value]
    parts = (
        value.values() if isinstance(value, Mapping) else value if isinstance(value, (tuple, list)) else ()
    )
    return [tensor for part in parts for tensor in _tensors(part)]


@contextmanager
def seeded(wanted: bool = True) -> Iterator[None]:
    """Where samples or networks may draw random numbers: the same ones every time, and torch's own put back."""
    if not wanted:
        yield
        return
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def in_order(examples: Examples, batch_size: int) -> Iterator[Batch]:
    """All samples, `batch_size` at a time."""
    for low in range(0, len(examples), batch_size):
        yield examples.take(np.arange(low, min(low + batch_size, len(examples))))
