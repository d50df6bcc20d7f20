"""Local training on all cores: announced requests run ahead in worker processes, bit-identical to `inline`."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import wait

import numpy as np

from fedpace.compute.process import Worker
from fedpace.compute.protocol import Key, Request, Task, describe
from fedpace.compute.together import rounding
from fedpace.compute.worker import Order, Reply
from fedpace.compute.workers import acquire
from fedpace.errors import FedpaceError
from fedpace.vector import Vector

DEATHS = 3  # of workers over one request, before it is given up


@dataclass(slots=True, eq=False)
class Job:
    """A request on its way: waiting until `order` is given, done when `reply` has come."""

    request: Request
    order: Order | None = None
    reply: Reply | None = None
    delta: Vector | None = None  # the result, if it had to leave the shared memory early
    taken_out: bool = False  # its slot of the shared memory is given back
    wanted: bool = True
    deaths: int = 0

    @property
    def waiting(self) -> bool:
        return self.wanted and self.order is None


class Waiting:
    """Jobs not sent yet. While all start from one version they belong to one round, which ends with its last
    result: the longest goes first. Otherwise the one that is needed first does."""

    def __init__(self) -> None:
        self._by_length: list[tuple[int, int, Job]] = []
        self._by_finish: list[tuple[float, int, Job]] = []
        self._versions: Counter[int] = Counter()
        self._serial = 0

    def add(self, job: Job, finish_s: float) -> None:
        self._serial += 1
        heapq.heappush(self._by_length, (-job.request.steps, self._serial, job))
        heapq.heappush(self._by_finish, (finish_s, self._serial, job))
        self._versions[job.request.version] += 1

    def left(self, job: Job) -> None:
        """`job` was sent or is not wanted any more."""
        version = job.request.version
        self._versions[version] -= 1
        if not self._versions[version]:
            del self._versions[version]

    def forget(self, job: Job) -> None:
        """The result is not needed after all; a job that was sent is still computed."""
        job.wanted = False
        if job.order is None:
            self.left(job)

    def next(self) -> Job | None:
        """The job to send next; it stays until it has `left`."""
        while self._by_length and not self._by_length[0][2].waiting:
            heapq.heappop(self._by_length)
        while self._by_finish and not self._by_finish[0][2].waiting:
            heapq.heappop(self._by_finish)
        if not self._by_finish:
            return None
        return self._by_length[0][2] if len(self._versions) == 1 else self._by_finish[0][2]


class Pool:
    """`workers` processes, one thread each; they stay for the next run of the same task."""

    def __init__(self, task: Task, workers: int, *, together: bool = False, memory: int = 0) -> None:
        self.task = task
        self.rounding = rounding(task, together)
        self.name = f"pool of {workers} worker{'s' * (workers > 1)}" + ", vectorised" * together
        self._group = acquire(task, workers, together, memory)
        self._group.busy = True
        self._jobs: dict[tuple[int, int], Job] = {}
        self._sent: dict[int, Job] = {}
        self._waiting = Waiting()

    # ------------------------------------------------------------ what the simulator calls

    def announce(self, request: Request, finish_s: float) -> None:
        if request.steps and request.key not in self._jobs:
            job = Job(request)
            self._jobs[request.key] = job
            self._waiting.add(job, finish_s)  # sent with the next `result`, when all of a round are known

    def result(self, request: Request) -> Vector:
        if not request.steps:
            return np.zeros_like(request.start)
        job = self._jobs.get(request.key)
        if job is not None and not request.same_as(job.request):
            self.forget(job.request.key)
            job = None
        with self._whole():
            if job is None:
                job = self._jobs[request.key] = Job(request)
                self._waiting.add(job, float("-inf"))
            return self._collect(job)

    def forget(self, key: Key) -> None:
        job = self._jobs.pop(key, None)
        if job is not None:
            self._waiting.forget(job)
            if job.order is not None and job.reply is not None and not job.taken_out:
                self._group.results.give_back(job.order.result)

    def close(self) -> None:
        """Announced requests that were never needed are dropped; the workers wait for the next run."""
        for job in list(self._jobs.values()):
            self.forget(job.request.key)
        self._group.busy = False

    # ------------------------------------------------------------ sending

    def _hand_out(self) -> None:
        """Send what is waiting, as far as there is room at the workers and for results."""
        while self._group.results.free and (job := self._waiting.next()) is not None:
            worker = min(self._group.workers, key=lambda worker: len(worker.unanswered))
            if len(worker.unanswered) >= self._group.depth:
                return
            self._send(worker, job)

    def _send(self, worker: Worker, job: Job) -> None:
        self._waiting.left(job)
        job.order = self._ordered(job.request)
        self._sent[job.order.number] = job
        try:
            worker.send(job.order)
        except OSError:
            self._on_worker_death(worker)

    def _ordered(self, request: Request) -> Order:
        group, correction, memory = self._group, request.correction, request.memory
        start = group.models.lend(request.start)
        return Order(
            number=next(group.numbers),
            fields=request.without_vectors(),
            dtype=request.start.dtype.str,
            start=start,
            model=group.models.writing(start),
            result=group.results.take(),
            correction=None
            if correction is None
            else group.models.lend(correction.astype(request.start.dtype)),
            memory=None if memory is None else group.models.lend(memory),
            kept=0 if memory is None else memory.size,
        )

    # ------------------------------------------------------------ receiving

    def _collect(self, job: Job) -> Vector:
        """Wait for one result and take it out of the shared memory."""
        self._listen(0.0)
        while job.reply is None:
            if job.order is None:
                self._hurry(job)
            self._listen(None)
        del self._jobs[job.request.key]
        if not job.taken_out:
            self._take_out(job)
        if job.reply.failure is not None:
            raise job.reply.failure
        assert job.delta is not None
        return job.delta

    def _take_out(self, job: Job) -> None:
        assert job.order is not None and job.reply is not None
        if job.reply.failure is None:
            shared = self._group.results.view(job.order.result, job.reply.size, job.reply.dtype)
            job.delta = shared.copy()
        self._group.results.give_back(job.order.result)
        job.taken_out = True

    def _hurry(self, job: Job) -> None:
        """A job is needed that is not even sent: it goes next, to the worker with the shortest queue."""
        if not self._group.results.free:
            done = (other for other in self._jobs.values() if other.reply is not None and not other.taken_out)
            self._take_out(next(done))
        worker = min(self._group.workers, key=lambda worker: len(worker.unanswered))
        if len(worker.unanswered) < self._group.depth:
            self._send(worker, job)

    def _listen(self, timeout_s: float | None) -> None:
        """Take all replies that have come; wait for one, unless `timeout_s` is 0."""
        ready = wait([worker.connection for worker in self._group.workers], timeout_s)
        for worker in [worker for worker in self._group.workers if worker.connection in ready]:
            try:
                while worker.connection.poll():
                    self._answered(worker, worker.connection.recv())
            except (EOFError, OSError):
                self._on_worker_death(worker)
        self._hand_out()

    def _answered(self, worker: Worker, reply: Reply) -> None:
        order = worker.unanswered.pop(reply.number)
        self._return_models(order)
        job = self._sent.pop(reply.number, None)
        if job is None or not job.wanted:
            self._group.results.give_back(order.result)
        else:
            job.reply = reply

    def _return_models(self, order: Order) -> None:
        for slot in (order.start, order.correction, order.memory):
            if slot is not None:
                self._group.models.take_back(slot)

    def _on_worker_death(self, dead: Worker) -> None:
        """A worker died: another takes its place, and its orders are done again."""
        self._group.replace(dead)
        in_progress = next(iter(dead.unanswered), None)
        for number, order in dead.unanswered.items():
            self._return_models(order)
            self._group.results.give_back(order.result)
            job = self._sent.pop(number, None)
            if job is not None and job.wanted:
                self._do_again(job, to_blame=number == in_progress)

    def _do_again(self, job: Job, to_blame: bool) -> None:
        job.order = None
        job.deaths += to_blame
        if job.deaths >= DEATHS:
            raise FedpaceError(f"{describe([job.request])}: {DEATHS} workers died over it")
        self._waiting.add(job, float("-inf"))

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """A conversation broken off in the middle (Ctrl-C) cannot be taken up again: the workers end."""
        try:
            yield
        except BaseException as error:
            if not isinstance(error, Exception) or isinstance(error, FedpaceError):
                self._group.stop()
            raise
