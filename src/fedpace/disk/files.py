"""Files that are never half written, and JSON without NaN."""

from __future__ import annotations

import contextlib
import json
import math
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedpace.errors import ConfigError


def require_writable(path: str | Path, what: str) -> Path:
    """The path, once it is sure that a file can be put there; ConfigError otherwise."""
    target = Path(path)
    try:
        if target.is_dir():
            raise OSError(None, "it is a folder")
        if _is_special(target):
            os.close(os.open(target, os.O_WRONLY))
        else:
            tempfile.TemporaryFile(dir=target.resolve().parent).close()
    except OSError as error:
        why = f"a file that can be written ({error.strerror})"
        raise ConfigError(f"{what} must be {why}; got {str(path)!r}") from None
    return target


def require_folder(path: str | Path, what: str) -> Path:
    """The path, once it is a folder that can be written to; made where it is missing."""
    target = Path(path)
    try:
        target.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=target).close()
    except OSError as error:
        why = f"a folder that can be written to ({error.strerror})"
        raise ConfigError(f"{what} must be {why}; got {str(path)!r}") from None
    return target


def write(path: str | Path, data: bytes, *, durable: bool = True, through: bool = True) -> None:
    """Put `data` under this name whole, or leave what was there: temporary file, fsync, rename, fsync.

    Not `durable`: without waiting for the disk; after a power cut the file may be missing. Not `through`: a symbolic
    link, pipe or device of this name is replaced, not written to.
    """
    target = Path(path)
    if through and _is_special(target):
        target.write_bytes(data)
        return
    target = target.resolve() if through else target  # a symbolic link stays one
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
        with open(temporary, "xb") as file:  # nobody else has put one there
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    if durable:
        sync_folder(target.parent)


def to_json(value: Any) -> str:
    """JSON on one line; numbers that JSON does not have become null."""
    return json.dumps(_plain(value), allow_nan=False, ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if hasattr(value, "item"):  # a numpy scalar
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _is_special(path: Path) -> bool:
    """A pipe or a device: it can be written to but not replaced."""
    return path.exists() and not path.is_file() and not path.is_dir()


def sync_folder(folder: Path) -> None:
    """Make renames in the folder survive a power cut; Windows opens no folders, and keeps a journal of renames."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
