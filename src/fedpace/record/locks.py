"""One process at a time in a folder; the system lets go of the lock when the process ends, however it ends."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedpace.errors import ConfigError

NAME = "lock"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """ConfigError if another process is at work in the folder."""
    with open(folder / NAME, "w") as file:
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
        with open(folder / NAME) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False
