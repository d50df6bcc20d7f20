"""Signals that end a run in good order: it stops between two events, where its checkpoint is written."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from fedpace.client import Session, Times
from fedpace.errors import Stop
from fedpace.server import Step
from fedpace.sim import Observer
from fedpace.sim.observer import Tally

NAMES = ("SIGINT", "SIGTERM", "SIGHUP")  # the last is not on Windows


class Interruption(Observer):
    """Ends the run after the event under way, once a signal has come.

    A second Ctrl-C ends it at once. The other signals often come twice (a terminal that closes, a service manager)
    and are obeyed once.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self._process = os.getpid()
        self._terminals = [each for each in (1, 2) if os.isatty(each)]

    def came(self, number: int, _: FrameType | None) -> None:
        """The handler; a worker inherits it by fork, and leaves the decision to its parent."""
        if os.getpid() != self._process:
            return
        if self.signal is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = self.signal or number
        self._leave_closed_terminals()

    def trained(self, client: int, session: Session, times: Times, until: float) -> None:
        self._stop()

    def stepped(self, step: Step, now: float, tally: Tally) -> None:
        self._stop()

    def _stop(self) -> None:
        if self.signal is not None:
            raise Stop(f"interrupted by {signal.Signals(self.signal).name}")

    def _leave_closed_terminals(self) -> None:
        """What is printed from now on goes nowhere, rather than failing in the middle of a step."""
        for descriptor in self._terminals:
            if not os.isatty(descriptor):
                os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


_active: list[Interruption] = []


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """Signals interrupt the run that observes this; one that is ignored (`nohup`) or handled otherwise stays so.

    Inside another one, it is that one: what follows a run, such as writing its result, is not cut short either.
    """
    if _active:
        yield _active[-1]
        return
    interruption = Interruption()
    handlers = {number: signal.signal(number, interruption.came) for number in _to_handle()}
    _active.append(interruption)
    try:
        yield interruption
    finally:
        _active.remove(interruption)
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _to_handle() -> list[int]:
    if threading.current_thread() is not threading.main_thread():
        return []  # only there may handlers be set
    numbers = [getattr(signal, name) for name in NAMES if hasattr(signal, name)]
    return [number for number in numbers if signal.getsignal(number) in _DEFAULT]


_DEFAULT: tuple[Any, ...] = (signal.SIG_DFL, signal.default_int_handler)
