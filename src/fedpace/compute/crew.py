"""Worker processes for one task: forked once, kept from run to run, forked again when one dies.

Why fork: a worker begins with the task as it is, whatever it is made of (closures, data sets that do not
pickle), with compiled code, and with all data in shared pages; it costs milliseconds and no second import of
torch. That is safe here because a worker computes on one thread and never touches the thread pools of its
parent. Where there is no fork there is no pool, and `auto` solves in this process.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import time
import warnings
from contextlib import suppress
from itertools import count
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from fedpace.compute.arena import Arena, Library
from fedpace.compute.protocol import Task
from fedpace.compute.worker import Order, work
from fedpace.errors import ConfigError

AHEAD_BYTES = 1 << 28  # of finished results that wait to be asked for
MOST_AHEAD = 1024
SMALL_BYTES = 1 << 20  # a vector up to this size means short solves
PATIENCE_S = 2.0  # for a worker to notice that nobody listens any more


class Worker:
    """One process and the orders it has not answered yet."""

    def __init__(self, process: int, orders: Connection) -> None:
        self.process, self.connection = process, orders
        self.unanswered: dict[int, Order] = {}

    def send(self, order: Order) -> None:
        """Raises OSError if the worker is gone."""
        self.unanswered[order.number] = order
        self.connection.send(order)


class Crew:
    """As many workers as asked for, and the memory they share.

    A worker has at most `depth` orders: one it works at, and what it goes on with while this process is busy.
    """

    def __init__(self, task: Task, workers: int, together: bool) -> None:
        self.task, self.together, self.busy, self.parent = task, together, False, os.getpid()
        size_bytes = task.layout.size * 8
        self.depth = 32 if together else 8 if size_bytes <= SMALL_BYTES else 2
        under_way = workers * self.depth
        self.models = Library(Arena(2 * under_way + 1, size_bytes))  # a start and a correction each
        self.results = Arena(min(MOST_AHEAD, max(2 * under_way, AHEAD_BYTES // size_bytes)), size_bytes)
        self.numbers = count()
        self.workers: list[Worker] = []
        for _ in range(workers):
            self.workers.append(self._fork())

    @property
    def usable(self) -> bool:
        """Whether it can serve a new run of this process."""
        return bool(self.workers) and not self.busy and self.parent == os.getpid()

    def replace(self, dead: Worker) -> Worker:
        """A new worker in the place of one that died."""
        self._end(dead)
        new = self._fork()
        self.workers[self.workers.index(dead)] = new
        return new

    def stop(self) -> None:
        """End all workers and wait until they have ended."""
        if self.parent != os.getpid():
            return  # this is a copy in a process somebody else forked
        workers, self.workers = self.workers, []
        for worker in workers:
            worker.connection.close()
        for worker in workers:
            self._end(worker)

    def _fork(self) -> Worker:
        mine, theirs = Pipe()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()  # or the child would inherit, and one day write, what is in the buffer
        with warnings.catch_warnings():
            # Python warns of forking beside threads: torch's idle ones are never used by a worker
            warnings.simplefilter("ignore", DeprecationWarning)
            blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            process = os.fork()
        if process:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            theirs.close()
            return Worker(process, mine)
        status = 1
        try:
            for worker in [*self.workers, *(worker for crew in _kept for worker in crew.workers)]:
                worker.connection.close()  # so that every worker sees when the parent hangs up
            mine.close()
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            work(self.task, self.models.arena, self.results, theirs, self.together)
            status = 0
        finally:
            os._exit(status)  # no exit handlers: those are the parent's

    def _end(self, worker: Worker) -> None:
        """An idle worker sees that nobody listens; one at work has nothing left to work for."""
        worker.connection.close()
        if worker.unanswered:
            _kill(worker.process)
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            if _gone(worker.process):
                return
            time.sleep(0.001)
        _kill(worker.process)


def _kill(process: int) -> None:
    with suppress(ProcessLookupError, ChildProcessError):
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


def _gone(process: int) -> bool:
    try:
        return os.waitpid(process, os.WNOHANG)[0] == process
    except ChildProcessError:  # somebody else has waited for it
        return True


_kept: list[Crew] = []


def hire(task: Task, workers: int, together: bool = False) -> Crew:
    """A crew of this size for this task: the one of the last run if it fits, else a new one in its place.

    `together`: workers solve what lies before them in groups, as far as the task can.
    """
    if not hasattr(os, "fork"):
        raise ConfigError(
            "compute 'pool' must run where processes can be forked; use 'inline' on this system"
        )
    for crew in _kept:
        wanted = (workers, together)
        if crew.usable and crew.task is task and (len(crew.workers), crew.together) == wanted:
            return crew
    dismiss()
    prepare(task)
    crew = Crew(task, workers, together)
    _kept.append(crew)
    return crew


def prepare(task: Task) -> None:
    """Let the task make what all workers will need, so that they share it."""
    ready: Any = getattr(task, "prepare", None)
    if ready is not None:
        ready()


def dismiss() -> None:
    """End the workers that are kept for the next run and are not at work."""
    for crew in list(_kept):
        if not crew.busy or crew.parent != os.getpid():
            _kept.remove(crew)
            crew.stop()


def _end_all() -> None:
    for crew in _kept:
        crew.stop()
    _kept.clear()


atexit.register(_end_all)
