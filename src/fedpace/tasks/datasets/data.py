"""A decoded data set: plain arrays, checked once."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedpace.errors import ConfigError

Array = npt.NDArray[Any]
Verify = Callable[[str, bytes], None]  # raises unless the content of an official file is the published one
PARTS = ("x_train", "y_train", "x_test", "y_test")
GROUPS = ("groups_train", "groups_test")


@dataclass(frozen=True, slots=True, eq=False)
class Data:
    """Training and test samples along the first axis, as they are stored.

    Images are uint8, (N, height, width) or (N, height, width, 3); text is uint8 codes with the following
    codes as labels; features are float32.
    """

    name: str
    x_train: Array
    y_train: Array
    x_test: Array
    y_test: Array
    classes: int
    groups_train: Array | None = None  # the natural client of a sample (its writer, its role), 0, 1, ...
    groups_test: Array | None = None
    source: str = ""  # as `tasks.load` is told; empty: by its name
    group_names: tuple[str, ...] = ()  # of the natural clients, where they have names

    def __post_init__(self) -> None:
        for part in ("train", "test"):
            check_samples(f"{self.name} {part} data", *self.samples(part))
            check_labels(f"{self.name} {part} labels", self.samples(part)[1], self.classes)
        if self.groups_train is None:
            check_complete(f"{self.name} training data", self.y_train, self.classes)

    @property
    def own_clients(self) -> int:
        """How many clients data with clients of its own has samples of; 0 where it has none by name."""
        if self.groups_train is None or not self.group_names:
            return 0
        return len(np.unique(self.groups_train))

    def labels(self) -> npt.NDArray[np.int64]:
        """One class per training sample; of a text, the first of its labels."""
        return np.asarray(self.y_train.reshape(len(self.y_train), -1)[:, 0], dtype=np.int64)

    def counts(self, parts: Sequence[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
        """Labels of each class (rows) among the training samples `parts` (columns)."""
        columns = [np.bincount(self.y_train[part].ravel(), minlength=self.classes) for part in parts]
        return np.stack(columns, axis=1)

    def samples(self, part: str) -> tuple[Array, Array]:
        return (self.x_train, self.y_train) if part == "train" else (self.x_test, self.y_test)


def check_samples(what: str, x: Sized, y: Sized) -> None:
    if len(x) != len(y) or len(y) == 0:
        raise ConfigError(f"{what} must have one label per sample; got {len(x)} samples and {len(y)} labels")


def check_labels(what: str, y: Array, classes: int) -> None:
    low, high = int(y.min()), int(y.max())
    if low < 0 or high >= classes:
        raise ConfigError(f"{what} must be in 0..{classes - 1}; got {low if low < 0 else high}")


def check_complete(what: str, y: Array, classes: int) -> None:
    missing = np.flatnonzero(np.bincount(y, minlength=classes) == 0)
    if len(missing):
        raise ConfigError(f"{what} must have samples of all {classes} classes; none of class {missing[0]}")
