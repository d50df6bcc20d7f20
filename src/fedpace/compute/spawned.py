"""Workers that begin as fresh interpreters and are sent their task, pickled.

Only such a child of ours ever reads what is pickled here, from memory that no other process has: nothing that came
from elsewhere is unpickled. cloudpickle also sends what has no name to be imported by, such as closures and whatever
a script or a notebook defines; so the child need not run that script again, and a script needs no guard against it.

Pickling may lose what it does not know of: arrays that are views of one another arrive as arrays of their own. So
a worker computes a sample before it is used, and what computes something else than here is not used.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from types import ModuleType

import cloudpickle

from fedpace.compute.arena import Arena, Sent
from fedpace.compute.inline import solve
from fedpace.compute.interrupts import MASKS
from fedpace.compute.memory import keep_freed
from fedpace.compute.process import NoWorkerError, Worker
from fedpace.compute.protocol import Request, Task, on_gpu
from fedpace.compute.sharing import divide, use_in_turn
from fedpace.compute.worker import Order, work
from fedpace.local import SGD


class PackedTask:
    """A task, pickled once into memory from which every worker takes it."""

    def __init__(self, task: Task) -> None:
        try:
            data = cloudpickle.dumps(task)
        except Exception as failure:  # whatever its parts raise
            raise _not_sent(one_line(failure)) from failure
        self._memory = Sent(len(data))
        self._memory.buffer[:] = data

    def opened(self) -> Task:
        task: Task = cloudpickle.loads(self._memory.buffer)
        return task


class Spawn:
    """How to start workers for one task."""

    memory = Sent

    def __init__(self, task: Task) -> None:
        if multiprocessing.current_process().daemon:
            raise NoWorkerError("a daemonic process cannot start worker processes")
        self.task, self.parcel, self.processes = task, PackedTask(task), 1
        if MASKS:
            resource_tracker.ensure_running()  # were it started with a worker, it would let Ctrl-C through to that

    def divide_gpus(self, workers: int) -> None:
        """Before the first is started: memory of a GPU is divided among all that use it."""
        if on_gpu(self.task):
            self.processes = divide(workers)

    @cached_property
    def sample(self) -> bytes | None:
        return sample(self.task)

    def start(
        self, models: Arena, results: Arena, together: bool, others: Iterable[Worker], number: int
    ) -> Worker:
        """A worker; of `others` it has nothing."""
        turn = (number, self.processes) if on_gpu(self.task) else None
        context = multiprocessing.get_context("spawn")
        mine, theirs = context.Pipe()
        process = context.Process(
            target=begin, args=(self.parcel, models, results, theirs, together, turn), name="fedpace worker"
        )
        with without_script():
            process.start()
        theirs.close()
        return SpawnedWorker(process, mine, lambda: self.sample)


class SpawnedWorker(Worker):
    def __init__(self, handle: SpawnProcess, orders: Connection, sample: Callable[[], bytes | None]) -> None:
        assert handle.pid is not None
        super().__init__(handle.pid, orders)
        self._handle, self._sample, self.ready = handle, sample, False

    def await_ready(self) -> None:
        here = self._sample()  # while the new process is busy importing
        try:
            reason, there = self.connection.recv()
        except (EOFError, OSError):
            raise _not_sent("the process ended before it had it") from None
        if not reason and None not in (here, there) and here != there:
            reason = "what arrives there computes something else"
        if reason:
            raise _not_sent(reason)
        self.ready = True

    def _pickled(self, order: Order) -> bytes:
        data: bytes = cloudpickle.dumps(order)  # a local rule of the caller's own travels, too
        return data

    def _kill(self) -> None:
        self._handle.kill()
        self._handle.join()

    def _gone(self) -> bool:
        return not self._handle.is_alive()


def begin(
    parcel: PackedTask,
    models: Arena,
    results: Arena,
    orders: Connection,
    together: bool,
    turn: tuple[int, int] | None,
) -> None:
    """In the new process: take the task, say so or why not, and work; `turn`: number and count of those on GPUs."""
    keep_freed()
    with suppress(OSError):  # the connection is closed
        try:
            if turn is not None:
                use_in_turn(*turn)
            task = parcel.opened()
        except Exception as failure:
            orders.send((one_line(failure), None))
            return
        orders.send(("", sample(task)))
        work(task, models, results, orders, together)


def sample(task: Task) -> bytes | None:
    """A digest of two local steps from beside the initial model; None: the task needs a local rule of its own."""
    try:
        local = SGD(1e-3, steps=2, batch_size=1)
        request = Request(
            client=0, data=0, session=0, start=task.initial(0) + 1, version=0, local=local, steps=2, seed=0
        )
        return hashlib.sha256(solve(task, request).tobytes()).digest()
    except Exception:
        return None


@contextmanager
def without_script() -> Iterator[None]:
    """A process started meanwhile does not run the caller's script, which it would do to have what is defined there."""
    script = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script


def _not_sent(reason: str) -> NoWorkerError:
    return NoWorkerError(f"the task cannot be sent to a worker process ({reason})")


def one_line(failure: Exception) -> str:
    """Its kind and the first line of what it says."""
    said = str(failure).strip().splitlines()
    return f"{type(failure).__name__}: {said[0]}" if said else type(failure).__name__
