"""One process at a time in a folder; the system lets go of the lock when the process ends, however it ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedpace.errors import ConfigError

NAME = "lock"


def _here(path: str, flags: int) -> int:
    """Opens the file of this name and nothing that a link names, and waits for no pipe."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """ConfigError if another process is at work in the folder."""
    with open(folder / NAME, "w", opener=_here) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigError(f"{folder} must not be in use; another process is working in it") from None
        try:
            yield
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)  # a worker forked meanwhile has a copy of the open file


def is_locked(folder: Path) -> bool:
    """Whether some process is at work in the folder."""
    try:
        with open(folder / NAME, opener=_here) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False
