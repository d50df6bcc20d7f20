"""The calls a journal makes to a file system, and no others: a test replaces them by one that loses unflushed bytes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from fedpace.deploy.transport import Buffer
from fedpace.disk.files import sync_folder

_BINARY = getattr(os, "O_BINARY", 0)


class AppendFile(Protocol):
    def write(self, parts: Sequence[Buffer]) -> None: ...

    def sync(self) -> None: ...

    def close(self) -> None: ...


class FileLayer(Protocol):
    """FileLayer of one folder, by name."""

    def names(self) -> list[str]: ...

    def read(self, name: str) -> bytes: ...

    def create(self, name: str) -> AppendFile:
        """A new file to append to; one of this name is overwritten."""
        ...

    def truncate(self, name: str, size: int) -> None:
        """Cut a file off, flushed to the disk."""
        ...

    def rename(self, name: str, to: str) -> None: ...

    def remove(self, name: str) -> None: ...

    def sync_names(self) -> None:
        """Flush the folder itself: files made, renamed and removed."""
        ...

    def free_bytes(self) -> int: ...


class DiskFiles:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def names(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir() if path.is_file())

    def read(self, name: str) -> bytes:
        return (self.folder / name).read_bytes()

    def create(self, name: str) -> DiskFile:
        return DiskFile(self.folder / name)

    def truncate(self, name: str, size: int) -> None:
        handle = os.open(self.folder / name, os.O_RDWR | _BINARY)
        try:
            os.ftruncate(handle, size)
            os.fsync(handle)
        finally:
            os.close(handle)

    def rename(self, name: str, to: str) -> None:
        os.replace(self.folder / name, self.folder / to)

    def remove(self, name: str) -> None:
        (self.folder / name).unlink(missing_ok=True)

    def sync_names(self) -> None:
        sync_folder(self.folder)

    def free_bytes(self) -> int:
        return shutil.disk_usage(self.folder).free


class DiskFile:
    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _BINARY, 0o600)

    def write(self, parts: Sequence[Buffer]) -> None:
        for part in parts:
            left = memoryview(part)
            while len(left):
                left = left[os.write(self._handle, left) :]

    def sync(self) -> None:
        os.fsync(self._handle)

    def close(self) -> None:
        os.close(self._handle)


def write_whole(files: FileLayer, name: str, data: Buffer) -> None:
    """A file that is there whole, or not at all."""
    fresh = f".{name}"
    file = files.create(fresh)
    try:
        file.write([data])
        file.sync()
    finally:
        file.close()
    files.rename(fresh, name)
    files.sync_names()
