"""Finding a data set: in the cache, in the usual places, at a path, or on the network."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedpace.disk.home import data_cache
from fedpace.errors import ConfigError, unknown
from fedpace.tasks.datasets import store
from fedpace.tasks.datasets.archive import BROKEN, Files, candidates, folder
from fedpace.tasks.datasets.catalogue import SOURCES, Source
from fedpace.tasks.datasets.data import Array, Data

BESIDE = ("data", "shared/data", "../data", "../shared/data")  # seen from the working directory


def source(name: str) -> Source:
    """The entry of the catalogue."""
    if name not in SOURCES:
        raise unknown("data set", name, SOURCES)
    return SOURCES[name]


def find(name: str) -> Data:
    """The data set from the cache; if it is not there, decoded from where its files lie."""
    chosen = source(name)
    if not store.stored(name):
        _import_from(chosen, [files for place in places(chosen) for files in _shallow(place, name)])
    if not store.stored(name):
        raise ConfigError(
            f"{name} is not downloaded: `fedpace data get {name}` downloads it, "
            f"`fedpace data import {name} PATH` takes it from a file or folder"
        )
    return opened(name)


def opened(name: str) -> Data:
    """The data set in the cache."""
    return _made(source(name), store.open_arrays(name))


def _made(chosen: Source, arrays: Mapping[str, Any]) -> Data:
    return Data(chosen.name, classes=chosen.classes, **arrays)


def places(chosen: Source) -> list[Path]:
    """Folders in which the files of a data set are looked for without being told."""
    return [*chosen.installed, data_cache(), *(Path(beside) for beside in BESIDE)]


def _shallow(place: Path, name: str) -> list[Files]:
    """The files in a folder, and in the folder in it that is named after the data set."""
    return [folder(path) for path in (place, place / name) if path.is_dir()]


def import_data(name: str, path: Path) -> Data:
    """Decode what lies at `path`, check it and put it into the cache."""
    chosen = source(name)
    if not _import_from(chosen, list(candidates(path))):
        forms = ", ".join(chosen.contents)
        raise ConfigError(f"{path} must hold {name} (an .npz, or files such as {forms}); nothing of it found")
    return opened(name)


def _import_from(chosen: Source, found: list[Files]) -> bool:
    """Whether one of the places had it. The first complaint counts if none is as it should be."""
    complaint: ConfigError | None = None
    for files in found:
        try:
            arrays = _decoded(chosen, files)
        except ConfigError as error:
            complaint = complaint or error
            continue
        if arrays is not None:
            _made(chosen, arrays)  # which checks them
            store.save(chosen.name, arrays)
            return True
    if complaint is not None:
        raise complaint
    return False


def _decoded(chosen: Source, files: Files) -> Mapping[str, Array] | None:
    def verify(file: str, content: bytes) -> None:
        expected, found = chosen.contents[file], hashlib.sha256(content).hexdigest()
        if found != expected:
            raise ConfigError(f"{chosen.name} {file} must have sha256 {expected}; got {found}")

    try:
        return chosen.decode(files, chosen.name, verify)
    except ConfigError as error:
        raise ConfigError(f"{files.where}: {error}") from None
    except BROKEN as error:
        raise ConfigError(f"{files.where}: damaged ({error})") from None
