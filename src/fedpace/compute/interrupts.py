"""Ctrl-C, which reaches a process and all its workers at once, is for the process: it then ends its workers."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

MASKS = hasattr(signal, "pthread_sigmask")  # not on Windows


@contextmanager
def postponed() -> Iterator[None]:
    """Ctrl-C waits until here, so that no worker is started without being known, and in the worker until `ignore`."""
    if not MASKS:
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def ignore() -> None:
    """In a worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if MASKS:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
