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
MOST_PARTS = 512  # of one write; systems take 1,024 or more
_flush = getattr(os, "fdatasync", os.fsync)  # bytes and size, without the times of the file


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
        """In as few calls as the system allows: a batch of the journal is two parts per input."""
        left = [memoryview(part) for part in parts if len(part)]
        for low in range(0, len(left), MOST_PARTS):
            self._write(left[low : low + MOST_PARTS])

    def _write(self, left: list[memoryview]) -> None:
        while left:
            written = _written(self._handle, left)
            while left and written >= len(left[0]):
                written -= len(left.pop(0))
            if left:
                left[0] = left[0][written:]

    def sync(self) -> None:
        _flush(self._handle)

    def close(self) -> None:
        os.close(self._handle)


def _written(handle: int, parts: Sequence[memoryview]) -> int:
    """Bytes that the system took at once."""
    return os.writev(handle, parts) if hasattr(os, "writev") else os.write(handle, parts[0])


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
