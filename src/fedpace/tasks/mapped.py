"""Data sets of other makes, as samples from which batches are taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import IterableDataset, Subset, TensorDataset

from fedpace.errors import ConfigError
from fedpace.tasks.batch_form import PLAIN, BatchForm
from fedpace.tasks.datasets.data import check_samples
from fedpace.tasks.examples import Batch, Examples, Tensors, of_ends
from fedpace.tasks.hugging_face import hugging_face


@dataclass(frozen=True, slots=True, eq=False)
class Mapped:
    """Samples fetched one by one, when a batch needs them."""

    dataset: Any
    form: BatchForm = BatchForm()

    def __len__(self) -> int:
        return len(self.dataset)

    def take(self, positions: npt.NDArray[np.int64]) -> Batch:
        samples = [self.dataset[int(position)] for position in positions]
        return self.form.divided(self.form.collated(samples))

    def fingerprint(self) -> str:
        """Of the number of samples, the first and the last."""
        return of_ends(self)


def examples(dataset: object, what: str, form: BatchForm = PLAIN) -> Examples:
    """`dataset` as examples: whole tensors where it holds such, else sample by sample."""
    found = _in_memory(dataset) if form == PLAIN else None
    if found is None:
        _require_map_style(dataset, what)
        found = hugging_face(dataset, form) or Mapped(_by_number(dataset), form)
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
        return Tensors(*whole.take(np.arange(len(whole))[dataset.indices]))
    return None


def _is_array(value: object) -> bool:
    return isinstance(value, (Tensor, np.ndarray)) and value.ndim > 0


def _by_number(dataset: object) -> object:
    """A pair of tensors has its samples side by side."""
    return TensorDataset(*map(torch.as_tensor, dataset)) if is_tensors(dataset) else dataset  # type: ignore[call-overload]


def _require_map_style(dataset: object, what: str) -> None:
    able = hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")
    if not able or isinstance(dataset, (IterableDataset, Mapping, str)):
        raise ConfigError(
            f"{what} must be a map-style data set (a length, and samples by number) or a pair of tensors; "
            f"got {type(dataset).__name__}"
        )
