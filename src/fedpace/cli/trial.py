"""One point of a sweep, run in a process of its own, here or wherever a Ray cluster has a free core."""

from __future__ import annotations

import math
import multiprocessing
import os
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self

from fedpace.cli import arguments, book, execution
from fedpace.cli.monitoring import Monitoring
from fedpace.errors import DivergedError, StalledError

if TYPE_CHECKING:
    from fedpace.compute.protocol import Task
    from fedpace.record import Run
    from fedpace.record.store.store import Store


@dataclass(frozen=True, slots=True)
class Trial:
    """One run, as sent to a worker process."""

    words: tuple[str, ...]
    metric: str
    stop_above: float
    stored: bool


@dataclass(frozen=True, slots=True)
class TrialResult:
    value: float  # NaN unless it was completed
    state: str
    real_seconds: float


class OnThisMachine:
    """Fresh processes, one core each, that end with this one."""

    def __init__(self, processes: int | None) -> None:
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        context = multiprocessing.get_context("spawn")
        self.processes = processes or os.cpu_count() or 1
        self._pool = ProcessPoolExecutor(self.processes, context, _end_with_parent)

    def submit(self, jobs: Sequence[Trial]) -> Future[list[TrialResult]]:
        return self._pool.submit(work, jobs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()


class OnRay:
    """Like a pool of processes, but of a Ray cluster's."""

    def __init__(self, processes: int | None) -> None:
        from fedpace.compute.cluster import started

        self._ray = started(processes or os.cpu_count() or 1)
        self._work = self._ray.remote(num_cpus=1)(work)
        self.processes = processes or int(self._ray.cluster_resources()["CPU"])

    def submit(self, jobs: Sequence[Trial]) -> Future[list[TrialResult]]:
        promise: Future[list[TrialResult]] = self._work.remote(jobs).future()
        return promise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ray.shutdown()


def _end_with_parent() -> None:
    """A worker whose sweep was killed ends too."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def work(jobs: Sequence[Trial]) -> list[TrialResult]:
    """In a worker: one point; after a seed that diverged the others are skipped."""
    answers: list[TrialResult] = []
    for job in jobs:
        answers.append(_run(job))
        if answers[-1].state != "done":
            break
    return answers


def known(jobs: Sequence[Trial], store: Store | None) -> list[TrialResult] | None:
    """A point's results from the store; None if one of its runs is missing."""
    if store is None:
        return None
    answers: list[TrialResult] = []
    for job in jobs:
        answer = _stored(job, store)
        if answer is None:
            return None
        answers.append(answer)
        if answer.state != "done":
            break
    return answers


def _run(job: Trial) -> TrialResult:
    from fedpace.record.store.store import Store
    from fedpace.study.sweep import Hopeless

    store = Store() if job.stored else None
    try:
        watch = Monitoring(observers=[Hopeless(job.stop_above)])
        run, entry = execution.obtain(_experiment(job), store, watch, stopped=True)
        state = _state(run) if entry is None else entry.status
    except (DivergedError, StalledError) as error:
        run, state = error.run, "diverged"
    return _answer(run.metrics, job.metric, state, run.summary)


def _state(run: Run) -> str:
    return "done" if run.stopped is None else "stopped"


def _stored(job: Trial, store: Store) -> TrialResult | None:
    from fedpace.record.store.identity import fingerprint

    for entry in store.same(fingerprint(_experiment(job).about())):
        if entry.status in (*book.OVER, "stopped"):
            steps = store.history(entry.id)
            metrics: Mapping[str, float] = next((s.metrics for s in reversed(steps) if s.metrics), {})
            return _answer(metrics, job.metric, entry.status, entry.summary)
    return None


def _answer(metrics: Mapping[str, float], metric: str, state: str, summary: Mapping[str, Any]) -> TrialResult:
    value = metrics.get(metric, math.nan) if state == "done" else math.nan
    return TrialResult(value, state, summary.get("real_seconds", 0.0))


def _experiment(job: Trial) -> execution.Experiment:
    args = arguments.parse(job.words)
    chosen = (args.task, args.clients, args.partition, args.model, args.seed)
    return execution.one_experiment(args, _task(*chosen, args.device or "cpu", args.precision or "float32"))


@lru_cache(maxsize=4)
def _task(
    name: str,
    clients: int,
    partition: str | None,
    model: str | None,
    seed: int,
    device: str,
    precision: str,
) -> Task:
    from fedpace import tasks

    return tasks.load(name, clients, partition, model, seed, device, precision)
