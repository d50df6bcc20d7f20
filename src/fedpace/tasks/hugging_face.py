"""Hugging Face's `datasets` as they are: rows are fetched many at a time, in the format the data set has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fedpace.errors import ConfigError
from fedpace.tasks.batch_form import BatchForm
from fedpace.tasks.examples import Batch, of_ends


@dataclass(frozen=True, slots=True, eq=False)
class HuggingFaceRows:
    """The rows of a `datasets.Dataset`; columns of text are left out."""

    dataset: Any
    form: BatchForm

    def __len__(self) -> int:
        return len(self.dataset)

    def take(self, positions: npt.NDArray[np.int64]) -> Batch:
        columns: dict[str, Any] = dict(self.dataset[positions.tolist()])
        if self.form.collate is not None:
            rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
            return self.form.divided(self.form.collated(rows))
        numbers = {name: values for name, values in columns.items() if not _is_text(values)}
        return self.form.divided({name: _tensor(name, values) for name, values in numbers.items()})

    def fingerprint(self) -> str:
        """Of the number of samples, the first and the last."""
        return of_ends(self)


def is_hugging_face(dataset: object) -> bool:
    """Whether it is one with a length; told by what it can do, so that the library need not be there."""
    return all(hasattr(dataset, name) for name in ("features", "column_names", "with_format", "__len__"))


def hugging_face(dataset: object, form: BatchForm) -> HuggingFaceRows | None:
    return HuggingFaceRows(dataset, form) if is_hugging_face(dataset) else None


def _is_text(values: Any) -> bool:
    if isinstance(values, np.ndarray):
        return values.dtype.kind in "US"
    return isinstance(values, list) and bool(values) and isinstance(values[0], str)


def _tensor(name: str, values: Any) -> Tensor:
    """One column of some rows."""
    if isinstance(values, Tensor):
        return values
    try:
        if isinstance(values, list) and all(isinstance(value, Tensor) for value in values):
            return torch.stack(values)
        return torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError):
        allowed = "numbers of one shape; dataset.with_transform(...) or collate_fn makes them"
        kind = type(values[0]).__name__ if isinstance(values, list) and values else type(values).__name__
        raise ConfigError(f"column {name} of a data set must be {allowed}; got {kind}") from None
