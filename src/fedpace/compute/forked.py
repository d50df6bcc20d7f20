"""Workers that begin as copies of this process.

A copy has the task as it is, whatever it is made of (closures, data sets that do not pickle), with compiled code,
and all data in shared pages; it costs milliseconds and no second import of torch. That is safe here because a
worker computes on one thread and never touches the thread pools of its parent.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Iterable
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.reduction import ForkingPickler
from typing import Any

from fedpace.compute.arena import Arena, Inherited
from fedpace.compute.process import Worker
from fedpace.compute.protocol import Task
from fedpace.compute.worker import Order, work


class Fork:
    """How to start workers for one task."""

    memory = Inherited

    def __init__(self, task: Task) -> None:
        ready: Any = getattr(task, "prepare", None)
        if ready is not None:
            ready()  # what all workers need is made once, and shared by them
        self.task = task

    def start(
        self, models: Arena, results: Arena, together: bool, others: Iterable[Worker], number: int
    ) -> Worker:
        """A worker that closes its copies of what `others` are reached by: each must see when this one hangs up."""
        mine, theirs = Pipe()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()  # or the child would inherit, and one day write, what is in the buffer
        with warnings.catch_warnings():
            # Python warns of forking beside threads: torch's idle ones are never used by a worker
            warnings.simplefilter("ignore", DeprecationWarning)
            process = os.fork()
        if process:
            theirs.close()
            return ForkedWorker(process, mine)
        status = 1
        try:
            for worker in others:
                worker.connection.close()
            mine.close()
            work(self.task, models, results, theirs, together)
            status = 0
        finally:
            os._exit(status)  # no exit handlers: those are the parent's


class ForkedWorker(Worker):
    def await_ready(self) -> None:
        """It is: it was born with its task."""

    def _pickled(self, order: Order) -> memoryview:
        return ForkingPickler.dumps(order)

    def _kill(self) -> None:
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(self.process, signal.SIGKILL)
            os.waitpid(self.process, 0)

    def _gone(self) -> bool:
        try:
            return os.waitpid(self.process, os.WNOHANG)[0] == self.process
        except ChildProcessError:  # it was waited for elsewhere
            return True
