"""Downloading data sets from their canonical sources, or else from a mirror."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pooch

from fedpace.errors import ConfigError
from fedpace.tasks.datasets import store
from fedpace.tasks.datasets.catalogue import Download
from fedpace.tasks.datasets.data import Data
from fedpace.tasks.datasets.find import import_data, opened, source

Say = Callable[[str], None]


def get(name: str, say: Say = lambda line: None) -> Data:
    """The data set, downloaded if it is not in the cache yet."""
    chosen = source(name)
    if store.stored(name):
        return opened(name)
    with store.scratch(name, "download") as folder:
        for download in chosen.downloads:
            fetch(download, folder, say)
        return import_data(name, folder / chosen.downloads[0].file)


def fetch(download: Download, folder: Path, say: Say) -> None:
    """One file from the first source that has it as published."""
    pooch.get_logger().setLevel("ERROR")
    failures = []
    for url in download.urls:
        say(f"downloading {url}")
        try:
            pooch.retrieve(url, download.checksum, fname=download.file, path=folder)
            return
        except (OSError, ValueError) as error:
            failures.append(f"{url} ({_reason(error)})")
    raise ConfigError(f"{download.file} could not be downloaded from {'; '.join(failures)}")


def _reason(error: Exception) -> str:
    """A few words: the answer of the server, that there was none, or that the file is another one."""
    response = getattr(error, "response", None)
    if response is not None:
        return f"HTTP status {response.status_code}"
    return "not reachable" if isinstance(error, OSError) else " ".join(str(error).split())
