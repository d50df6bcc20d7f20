"""Whole runs in processes of their own: one function, called in each with one argument after another.

Where the system can fork, a process begins as a copy of this one and has the function as it is, whatever it is made
of; elsewhere it is a fresh interpreter to which the function is sent, pickled, through a pipe. Nothing is pickled to
disk.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext, suppress
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, Self

import cloudpickle

from fedpace import errors
from fedpace.compute.spawned import without_script
from fedpace.compute.threads import one_thread
from fedpace.compute.workers import start_method

Function = Callable[[Any], Any]
PATIENCE_S = 5.0  # for a process that is told to end to write down how far it came


def processes(do: Function, count: int | None, *, ray: bool = False) -> Here | Processes | RayProcesses:
    """As many processes as asked for (None: one per core), of this machine or of a Ray cluster; 1: this process."""
    if ray:
        return RayProcesses(do, count)
    many = count or os.cpu_count() or 1
    return Here(do) if many == 1 else Processes(do, many)


class Here:
    """This process: every call is done at once. On one thread, like those of the others: results are the same."""

    count = 1

    def __init__(self, do: Function) -> None:
        self._do = do

    def submit(self, argument: Any) -> Future[Any]:
        promise: Future[Any] = Future()
        with one_thread():
            promise.set_result(self._do(argument))
        return promise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None: ...


class Processes:
    """Processes of this machine; they end with this one, however it ends."""

    def __init__(self, do: Function, count: int) -> None:
        self.count = count
        self._children = [
            _Child(do) for _ in range(count)
        ]  # before there is a thread: a fork copies only its own
        self._idle: SimpleQueue[_Child] = SimpleQueue()
        for child in self._children:
            self._idle.put(child)
        self._threads = ThreadPoolExecutor(count)

    def submit(self, argument: Any) -> Future[Any]:
        return self._threads.submit(self._ask, argument)

    def _ask(self, argument: Any) -> Any:
        child = self._idle.get()
        try:
            return child.ask(argument)
        finally:
            self._idle.put(child)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._threads.shutdown(wait=error[0] is None, cancel_futures=True)
        for child in self._children:
            child.dismiss()
        for child in self._children:
            child.end()


class RayProcesses:
    """Processes of a Ray cluster."""

    def __init__(self, do: Function, count: int | None) -> None:
        from fedpace.compute.cluster import started

        def called(argument: Any) -> Any:
            return do(argument)

        self._ray = started(count or os.cpu_count() or 1)
        self._do = self._ray.remote(num_cpus=1)(called)  # which takes functions, not whatever can be called
        self.count = count or int(self._ray.cluster_resources()["CPU"])

    def submit(self, argument: Any) -> Future[Any]:
        promise: Future[Any] = self._do.remote(argument).future()
        return promise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._ray.shutdown()


class _Child:
    """This end of one process."""

    def __init__(self, do: Function) -> None:
        method = start_method()
        context: Any = multiprocessing.get_context(method)
        self._connection, theirs = context.Pipe()
        sent = do if method == "fork" else cloudpickle.dumps(do)
        self.process = context.Process(target=_work, args=(sent, theirs), name="fedpace run")
        for stream in (sys.stdout, sys.stderr):
            stream.flush()  # or the child would inherit, and one day write, what is in the buffer
        with warnings.catch_warnings(), without_script() if method == "spawn" else nullcontext():
            warnings.simplefilter(
                "ignore", DeprecationWarning
            )  # of forking beside threads, which no child uses
            self.process.start()
        theirs.close()

    def ask(self, argument: Any) -> Any:
        """What the function returns there; what it raises there is raised here, as far as that is known here."""
        try:
            self._connection.send(argument)
            failed, answer = self._connection.recv()
        except (EOFError, OSError):
            raise errors.FedpaceError("a process that worked on a run has ended") from None
        if failed:
            raise _raised(*answer)
        return answer

    def dismiss(self) -> None:
        with suppress(OSError):
            self._connection.send(None)

    def end(self) -> None:
        """One that is busy was interrupted together with this process, or is now."""
        self.process.join(PATIENCE_S / 2)
        if self.process.is_alive():
            with suppress(ProcessLookupError):
                os.kill(self.process.pid, signal.SIGINT)
            self.process.join(PATIENCE_S)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self._connection.close()


def _work(sent: Function | bytes, arguments: Connection) -> None:
    """In the new process: answer one argument after another."""
    _end_with_parent()
    do = cloudpickle.loads(sent) if isinstance(sent, bytes) else sent
    with suppress(EOFError, OSError, KeyboardInterrupt), one_thread():
        while (argument := arguments.recv()) is not None:
            arguments.send(_answer(do, argument))


def _answer(do: Function, argument: Any) -> tuple[bool, Any]:
    try:
        return False, do(argument)
    except Exception as error:
        return True, (type(error).__name__, str(error), traceback.format_exc())


def _raised(kind: str, text: str, trace: str) -> Exception:
    """An error of ours as it was; another one with where it came from."""
    known = getattr(errors, kind, None)
    if isinstance(known, type) and issubclass(known, errors.FedpaceError):
        return known(text)
    return RuntimeError(f"{kind}: {text}\n{trace}")


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
