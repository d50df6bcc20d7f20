"""Worker processes for one task: started once, reused from run to run, started again when one dies."""

from __future__ import annotations

import atexit
import os
from itertools import count

from fedpace.compute import interrupts
from fedpace.compute.arena import Arena, Library
from fedpace.compute.forked import Fork
from fedpace.compute.process import Worker
from fedpace.compute.protocol import Task, on_gpu
from fedpace.compute.queues import orders_per_worker, waiting_results
from fedpace.compute.spawned import Spawn
from fedpace.errors import unknown

CHOICE = "FEDPACE_START_METHOD"
METHODS: dict[str, type[Fork] | type[Spawn]] = {"spawn": Spawn}
if hasattr(os, "fork"):
    METHODS = {"fork": Fork, **METHODS}


class WorkerGroup:
    """As many workers as asked for, and the memory they share.

    A worker has at most `depth` orders: one in progress, and a queue for while this process is busy. `memory`: entries
    that a client keeps from one session to the next, which travel beside the vectors.
    """

    def __init__(self, task: Task, workers: int, together: bool, method: str, memory: int = 0) -> None:
        self.task, self.together, self.busy, self.parent = task, together, False, os.getpid()
        self.method, self._how, self.memory = method, METHODS[method](task), memory
        if isinstance(self._how, Spawn):
            self._how.divide_gpus(workers)
        size_bytes = (task.layout.size + memory) * 8
        self.depth = orders_per_worker(size_bytes, together)
        kind = self._how.memory
        under_way = 3 * workers * self.depth  # start, correction and memory of each order
        self.models = Library(Arena(under_way + 1, size_bytes, kind))
        self.results = Arena(waiting_results(size_bytes, workers, together), size_bytes, kind)
        self.numbers = count()
        self.workers: list[Worker] = []
        try:
            for number in range(workers):
                with interrupts.postponed():
                    self.workers.append(self._start(number))
            for worker in self.workers:
                worker.await_ready()
        except BaseException:
            self.stop()
            raise

    @property
    def usable(self) -> bool:
        """Whether it can serve a new run of this process."""
        return bool(self.workers) and not self.busy and self.parent == os.getpid()

    def fits(self, task: Task, workers: int, together: bool, method: str, memory: int) -> bool:
        """Whether it is for this task, with these options."""
        wanted = (workers, together, method, memory)
        return self.task is task and (len(self.workers), self.together, self.method, self.memory) == wanted

    def replace(self, dead: Worker) -> Worker:
        """A new worker in the place of one that died."""
        dead.end()
        with interrupts.postponed():
            number = self.workers.index(dead)
            new = self.workers[number] = self._start(number)
        new.await_ready()
        return new

    def stop(self) -> None:
        """End all workers and wait until they have ended."""
        if self.parent != os.getpid():
            return  # this is a copy in a process forked elsewhere
        workers, self.workers = self.workers, []
        for worker in workers:
            worker.connection.close()
        for worker in workers:
            worker.end()

    def _start(self, number: int) -> Worker:
        others = [*self.workers, *(worker for group in _standing for worker in group.workers)]
        return self._how.start(self.models.arena, self.results, self.together, others, number)


_standing: list[WorkerGroup] = []


def start_method() -> str:
    """How worker processes begin: `FEDPACE_START_METHOD`, else as copies of this one where the system can."""
    chosen = os.environ.get(CHOICE) or next(iter(METHODS))
    if chosen not in METHODS:
        raise unknown(CHOICE, chosen, METHODS)
    return chosen


def acquire(task: Task, workers: int, together: bool = False, memory: int = 0) -> WorkerGroup:
    """This many workers for this task: those of the last run if they fit, else new ones in their place.

    `together`: workers compute what is queued in groups, as far as the task can. NoWorkerError if the task
    cannot be sent to a process.
    """
    method = "spawn" if on_gpu(task) else start_method()
    for group in _standing:
        if group.usable and group.fits(task, workers, together, method, memory):
            return group
    release()
    group = WorkerGroup(task, workers, together, method, memory)
    _standing.append(group)
    return group


def release() -> None:
    """End the workers that wait for the next run and are idle."""
    for group in list(_standing):
        if not group.busy or group.parent != os.getpid():
            _standing.remove(group)
            group.stop()


def end_all() -> None:
    for group in _standing:
        group.stop()
    _standing.clear()


atexit.register(end_all)
