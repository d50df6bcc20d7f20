"""Decoded data sets in a cache folder, as memory-mapped arrays.

A data set is a folder that appears by one rename, complete: an interrupted download leaves a folder with
another name behind, and of two processes that decode at once the later one finds the work done.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypedDict

import numpy as np

from fedpace.disk.home import data_cache
from fedpace.disk.locks import locked
from fedpace.errors import ConfigError
from fedpace.tasks.datasets.data import GROUPS, PARTS, Array
from fedpace.tasks.datasets.npy import map_npy
from fedpace.untrusted import Whole, fits, read_regular

MANIFEST = "manifest.json"
MAX_MANIFEST_BYTES = 1 << 20
ENTRY = {"sha256": str, "bytes": Whole, "mtime_ns": Whole}  # how to recognise an array
ABANDONED_SECONDS = 24 * 3600.0
PUBLISHING_SECONDS = 600.0  # checking the largest data set by its checksums takes seconds


class Noted(TypedDict):
    """What the manifest notes of an array."""

    sha256: str
    bytes: int
    mtime_ns: int


def stored(name: str) -> bool:
    """Whether the data set has been decoded into the cache."""
    return (data_cache() / name / MANIFEST).is_file()


def save(name: str, arrays: Mapping[str, Array]) -> None:
    """Put a data set into the cache, in place of one that is damaged."""
    with scratch(name, "part") as part:
        entries = {key: _write(part / f"{key}.npy", array) for key, array in arrays.items()}
        _write_text(part / MANIFEST, json.dumps({"name": name, "arrays": entries}, indent=1))
        _publish(part, part.parent / name)


@contextlib.contextmanager
def scratch(name: str, suffix: str) -> Iterator[Path]:
    """A folder in the cache that no other process uses and that is gone afterwards."""
    folder = data_cache() / f".{name}.{uuid.uuid4().hex}.{suffix}"
    folder.mkdir(parents=True)
    _sweep(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def open_arrays(name: str) -> dict[str, Array]:
    """The arrays of a data set in the cache, memory-mapped and read-only.

    A file whose size or time of change is not as noted is checked by its checksum before it is used.
    """
    folder = data_cache() / name
    entries = _entries(folder)
    for key, entry in entries.items():
        path = folder / f"{key}.npy"
        if not _as_noted(path, entry):
            _check(path, entry)
    return {key: map_npy(folder / f"{key}.npy") for key in entries}


def check(name: str) -> None:
    """Every byte of a data set in the cache against its checksum."""
    folder = data_cache() / name
    for key, entry in _entries(folder).items():
        _check(folder / f"{key}.npy", entry)


def _entries(folder: Path) -> dict[str, Noted]:
    try:
        manifest = json.loads(read_regular(folder / MANIFEST, MAX_MANIFEST_BYTES))
        entries: dict[str, Noted] = manifest["arrays"]
        known = set(PARTS) <= set(entries) <= {*PARTS, *GROUPS}
        if not known or not fits(entries, {str: ENTRY}):
            raise ValueError("it describes something else")
        return entries
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigError(f"{folder / MANIFEST} is unreadable ({error}); remove {folder}") from None


def _write(path: Path, array: Array) -> Noted:
    """Write one array for good, and say how to recognise it."""
    with path.open("wb") as file:
        np.save(file, np.ascontiguousarray(array), allow_pickle=False)
        file.flush()
        os.fsync(file.fileno())
    stat = path.stat()
    return {"sha256": _sha256(path), "bytes": stat.st_size, "mtime_ns": stat.st_mtime_ns}


def _write_text(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _publish(part: Path, final: Path) -> None:
    """Give the finished folder its name, unless another process has put a whole one there meanwhile.

    One process at a time: of two that both find no folder, the later would otherwise take the earlier one's away
    from whoever is opening it.
    """
    with locked(final.parent, f".{final.name}.lock", patience=PUBLISHING_SECONDS):
        if final.exists():
            with contextlib.suppress(ConfigError):
                return check(final.name)
            final.rename(part.with_suffix(".old"))
        part.rename(final)
    shutil.rmtree(part.with_suffix(".old"), ignore_errors=True)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _as_noted(path: Path, entry: Noted) -> bool:
    try:
        stat = path.stat()
    except OSError:
        return False
    return (stat.st_size, stat.st_mtime_ns) == (entry["bytes"], entry["mtime_ns"])


def _check(path: Path, entry: Noted) -> None:
    found = _sha256(path) if path.is_file() else "no file"
    if found != entry["sha256"]:
        raise ConfigError(
            f"{path} must have sha256 {entry['sha256']}; got {found} (remove {path.parent} and import it again)"
        )


def _sweep(new: Path) -> None:
    """Remove what interrupted processes left a day or longer before `new` was made."""
    made = new.stat().st_mtime
    for left in new.parent.glob(".*.*.*"):
        with contextlib.suppress(OSError):
            if made - left.stat().st_mtime > ABANDONED_SECONDS:
                shutil.rmtree(left, ignore_errors=True)
