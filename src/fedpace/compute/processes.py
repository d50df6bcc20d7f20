"""Whole runs in processes of their own: one function, called in each with one argument after another.

Where the system can fork, a process begins as a copy of this one and has the function as it is, whatever it is made
of; elsewhere, and on a GPU, which a copy of a process cannot use, it is a fresh interpreter to which the function is
sent, pickled, through a pipe. Nothing is pickled to disk.
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
from functools import lru_cache
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, Self

import cloudpickle

from fedpace import errors
from fedpace.compute.sharing import divide, use_assigned, use_in_turn
from fedpace.compute.spawned import one_line, without_script
from fedpace.compute.threads import one_thread
from fedpace.compute.workers import start_method

Function = Callable[[Any], Any]
PATIENCE_S = 5.0  # for a process that is told to end to write down how far it came


def processes(
    do: Function, count: int | None, *, ray: bool = False, gpu: bool = False
) -> Here | Processes | RayProcesses:
    """As many processes as asked for (None: one per core), of this machine or of a Ray cluster; 1: this process.

    `gpu`: the function computes on a GPU. Several GPUs serve the processes in turn; Ray is asked for a share of one.
    """
    if ray:
        return RayProcesses(do, count, gpu)
    many = count or os.cpu_count() or 1
    return Here(do) if many == 1 else Processes(do, many, gpu)


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

    def __init__(self, do: Function, count: int, gpu: bool = False) -> None:
        self.count = count
        method = "spawn" if gpu else start_method()
        sent = do if method == "fork" else packed(do)
        shared = divide(count) if gpu else 1
        self._children = [
            _Child(sent, method, (number, shared) if gpu else None) for number in range(count)
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

    def __init__(self, do: Function, count: int | None, gpu: bool = False) -> None:
        from fedpace.compute.cluster import gpu_share, started

        self._ray = started(count or os.cpu_count() or 1)
        self.count = count or int(self._ray.cluster_resources()["CPU"])
        share = gpu_share(self._ray, self.count) if gpu else 0.0
        function = _on_assigned(packed(do), round(1 / share)) if gpu else _called(do)
        self._do = self._ray.remote(num_cpus=1, num_gpus=share)(function)

    def submit(self, argument: Any) -> Future[Any]:
        promise: Future[Any] = self._do.remote(argument).future()
        return promise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._ray.shutdown()


def _called(do: Function) -> Function:
    """A function: Ray takes no other thing that can be called."""

    def called(argument: Any) -> Any:
        return do(argument)

    return called


def _on_assigned(sent: bytes, processes: int) -> Function:
    """The packed function, unpacked in a process of Ray once that knows which GPU it was given."""

    def called(argument: Any) -> Any:
        use_assigned(processes)
        return opened(sent)(argument)

    return called


def packed(do: Function) -> bytes:
    """A function for a fresh interpreter; ConfigError if it cannot be sent."""
    try:
        data: bytes = cloudpickle.dumps(do)
    except Exception as failure:  # whatever its parts raise
        raise _not_sent(failure) from failure
    return data


@lru_cache(maxsize=1)
def opened(sent: bytes) -> Function:
    """The packed function; with it stays the task of its last seed."""
    do: Function = cloudpickle.loads(sent)
    return do


def _not_sent(failure: Exception) -> errors.ConfigError:
    what = "task and algorithms in several processes that are not forked (workers=1 needs no other)"
    return errors.ConfigError(f"{what} must be what can be pickled; got {one_line(failure)}")


class _Child:
    """This end of one process, to which the function is sent, packed unless it is forked; `turn` is for GPUs."""

    def __init__(self, sent: Function | bytes, method: str, turn: tuple[int, int] | None) -> None:
        context: Any = multiprocessing.get_context(method)
        self._connection, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(sent, theirs, turn), name="fedpace run")
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


def _work(sent: Function | bytes, arguments: Connection, turn: tuple[int, int] | None) -> None:
    """In the new process: answer one argument after another."""
    _end_with_parent()
    do = _unpacked(sent, turn) if isinstance(sent, bytes) else sent
    with suppress(EOFError, OSError, KeyboardInterrupt), one_thread():
        while (argument := arguments.recv()) is not None:
            arguments.send(_answer(do, argument))


def _unpacked(sent: bytes, turn: tuple[int, int] | None) -> Function:
    """The function; one that says why, if it does not arrive."""
    try:
        if turn is not None:
            use_in_turn(*turn)
        return opened(sent)
    except Exception as failure:
        reason = _not_sent(failure)

        def refuse(_: Any) -> Any:
            raise reason

        return refuse


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
