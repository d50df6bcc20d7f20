"""Data sets of other makes, as samples from which batches are taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import IterableDataset, Subset, TensorDataset, default_collate

from fedpace.errors import ConfigError
from fedpace.tasks.datasets.data import check_samples
from fedpace.tasks.examples import Batch, Examples, Tensors, as_array, seeded
from fedpace.tasks.fingerprint import sha256

TARGETS = ("labels", "label", "targets", "target", "y")  # the keys that may hold it in a dict


@dataclass(frozen=True, slots=True, eq=False)
class Mapped:
    """Samples fetched one by one, when a batch needs them."""

    dataset: Any

    def __len__(self) -> int:
        return len(self.dataset)

    def take(self, positions: npt.NDArray[np.int64]) -> Batch:
        batch = default_collate([_plain(self.dataset[int(position)]) for position in positions])
        return _divided(batch)

    def fingerprint(self) -> str:
        """Of the number of samples, the first and the last."""
        with seeded():  # a sample may be drawn anew each time it is taken
            ends = self.take(np.array([0, len(self) - 1]))
        return f"{len(self)} {[sha256(as_array(tensor)) for tensor in _tensors(ends)]}"


def examples(dataset: object, what: str) -> Examples:
    """`dataset` as examples: whole tensors where it holds such, else sample by sample."""
    found = _in_memory(dataset)
    if found is None:
        _require_map_style(dataset, what)
        found = Mapped(dataset)
    if len(found) == 0:
        raise ConfigError(f"{what} must have samples; it has none")
    if isinstance(found, Tensors):
        check_samples(what, found.inputs, found.targets)
    return found


def is_pair(part: object) -> bool:
    """Whether it is two data sets, and not one: two tensors, or two samples in a list."""
    return isinstance(part, tuple) and len(part) == 2 and not any(map(_is_array, part))


def is_tensors(part: object) -> bool:
    """Whether it is a pair of tensors, which is one data set."""
    return isinstance(part, (tuple, list)) and len(part) == 2 and all(map(_is_array, part))


def _in_memory(dataset: object) -> Examples | None:
    if isinstance(dataset, Tensors):
        return dataset
    if is_tensors(dataset):
        return Tensors(*(torch.as_tensor(part) for part in dataset))  # type: ignore[attr-defined]
    if type(dataset) is TensorDataset and len(dataset.tensors) == 2:
        return Tensors(*dataset.tensors)
    if type(dataset) is Subset and (whole := _in_memory(dataset.dataset)) is not None:
        return Tensors(*whole.take(np.asarray(dataset.indices, dtype=np.int64)))
    return None


def _is_array(value: object) -> bool:
    return isinstance(value, (Tensor, np.ndarray)) and value.ndim > 0


def _require_map_style(dataset: object, what: str) -> None:
    able = hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")
    if not able or isinstance(dataset, (IterableDataset, Mapping, str)):
        raise ConfigError(
            f"{what} must be a map-style data set (a length, and samples by number) or a pair of tensors; "
            f"got {type(dataset).__name__}"
        )


def _plain(sample: object) -> object:
    """A sample whose lists of numbers, as Hugging Face's data sets have them, are tensors."""
    if isinstance(sample, Mapping):
        return {key: torch.as_tensor(v) if isinstance(v, list) else v for key, v in sample.items()}
    return sample


def _divided(batch: object) -> Batch:
    """Inputs and targets."""
    if isinstance(batch, Mapping):
        key = next((key for key in TARGETS if key in batch), None)
        if key is None:
            raise ConfigError(f"a sample must have one of {', '.join(TARGETS)}; got {', '.join(batch)}")
        return {name: part for name, part in batch.items() if name != key}, batch[key]
    if not isinstance(batch, Sequence) or len(batch) < 2:
        raise ConfigError(f"a sample must be (input, target) or a dict; got {type(batch).__name__}")
    *inputs, target = batch
    return (inputs[0] if len(inputs) == 1 else tuple(inputs)), target


def _tensors(value: object) -> list[Tensor]:
    """All tensors in nested tuples, lists and dicts."""
    if isinstance(value, Tensor):
        return [value]
    parts = (
        value.values() if isinstance(value, Mapping) else value if isinstance(value, (tuple, list)) else ()
    )
    return [tensor for part in parts for tensor in _tensors(part)]
