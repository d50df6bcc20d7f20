"""Data sets that lie somewhere on the disk: `folder:PATH`, `leaf:PATH`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fedpace.tasks.datasets.client_files import from_folder
from fedpace.tasks.datasets.data import Data
from fedpace.tasks.datasets.leaf import from_leaf

READERS: dict[str, Callable[[Path], Data]] = {"folder": from_folder, "leaf": from_leaf}


def read_outside(name: str) -> Data:
    """The data at the path in `name`."""
    kind, _, path = name.partition(":")
    return READERS[kind](Path(path).expanduser().resolve())
