"""One process at a time in a folder; the system lets go of the lock when the process ends, however it ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from fedpace.errors import ConfigError

NAME = "lock"
ASKING_SECONDS = 1.0  # longer than anybody who only asks whether it is locked holds it, on a busy machine too
OWNER = "owner"  # of a run in the store, held from before its first checkpoint until its result is written


@contextmanager
def locked(folder: Path, name: str = NAME, *, patience: float = ASKING_SECONDS) -> Iterator[None]:
    """ConfigError if another process uses the folder, and still does after `patience` seconds.

    The lock belongs to this process alone: one that is forked meanwhile, such as a worker, closes its copy of the
    open file at once (`filelock` does that), and one that is spawned never has any.
    """
    lock = FileLock(folder / name, timeout=patience, poll_interval=0.01)
    try:
        lock.acquire()
    except Timeout:
        raise ConfigError(f"{folder} must not be in use; another process is working in it") from None
    try:
        yield
    finally:
        lock.release()


def is_locked(folder: Path) -> bool:
    """Whether some process uses the folder."""
    return any(_is_held(folder / name) for name in (NAME, OWNER))


def _is_held(file: Path) -> bool:
    if not file.exists():  # to ask for a lock makes its file, and its folder
        return False
    try:
        with FileLock(file, blocking=False):
            return False
    except OSError:
        return True
