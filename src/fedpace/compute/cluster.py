"""The pool over a Ray cluster, for runs that outgrow one machine: `compute="ray"`.

An actor per worker holds the task; a model goes into the object store once per version and from there to
every node that needs it once. Results are those of `inline`. What is lost with an actor or a node is trained
again: by Ray, once the actor has found another place, or by an actor that is idle meanwhile. Local training is pure,
so that changes nothing.

Joins the cluster that RAY_ADDRESS names, else starts Ray on this machine, on the loopback interface.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

import numpy as np

from fedpace.compute.inline import solve
from fedpace.compute.pool import Job, Waiting
from fedpace.compute.protocol import Key, Request, Task, on_gpu
from fedpace.compute.sharing import use_assigned
from fedpace.errors import ConfigError
from fedpace.vector import Vector

DEPTH = 2  # requests at an actor: one in progress, one queued
MODELS = 64  # versions held in the object store
PATIENCE_S = 10.0  # without any result: then the one that is needed is asked of an idle actor, too


class SolverActor:
    """The actor's class. It fetches the task when first needed, also after a restart."""

    def __init__(self, gpu_share: float = 0.0) -> None:
        if gpu_share:
            use_assigned(round(1 / gpu_share))
        self.task: Task | None = None
        self.start: tuple[Any, Vector] | None = None  # the last model, and its name

    def solve(
        self, held: list[Any], start: list[Any], correction: Vector | None, fields: dict[str, Any]
    ) -> Vector:
        """`held` and `start` name the task and the model in the object store, in lists: Ray would fetch them every
        time otherwise, and a device could not know a model that it has."""
        ray: Any = importlib.import_module("ray")
        if self.task is None:
            self.task = ray.get(held[0])
        if self.start is None or self.start[0] != start[0]:
            self.start = start[0], ray.get(start[0])
        return solve(self.task, Request(start=self.start[1], correction=correction, **fields))


class Actors:
    """The actors for one task, reused from run to run."""

    def __init__(self, ray: Any, task: Task, workers: int) -> None:
        self.ray, self.task = ray, task
        self.held = [ray.put(task)]
        share = gpu_share(ray, workers) if on_gpu(task) else 0.0
        needs = {"num_cpus": 1, "num_gpus": share, "max_restarts": -1, "max_task_retries": -1}
        remote = ray.remote(**needs)(SolverActor)
        self.actors = [remote.remote(share) for _ in range(workers)]

    def fit(self, task: Task, workers: int) -> bool:
        return self.task is task and len(self.actors) == workers and bool(self.ray.is_initialized())

    def end(self) -> None:
        for actor in self.actors if self.ray.is_initialized() else ():
            self.ray.kill(actor)


def gpu_share(ray: Any, workers: int) -> float:
    """What each process asks for: a GPU of its own, or an equal part of one."""
    gpus = ray.cluster_resources().get("GPU", 0)
    if not gpus:
        raise ConfigError("the task's device must be in the Ray cluster; no node of it has a GPU")
    return 1 / -(-workers // int(gpus))


_standing: list[Actors] = []


def acquired(task: Task, workers: int) -> Actors:
    """The actors of the last run if they fit, else new ones in their place."""
    ray = started(workers)
    if not _standing or not _standing[0].fit(task, workers):
        release()
        _standing.append(Actors(ray, task, workers))
    return _standing[0]


def release() -> None:
    """End the actors that wait for the next run."""
    while _standing:
        _standing.pop().end()


class Cluster:
    """`workers` actors, each on one core somewhere."""

    def __init__(self, task: Task, workers: int) -> None:
        self.rounding = ""
        self.name, self.task = f"ray with {workers} actor{'s' * (workers > 1)}", task
        group = acquired(task, workers)
        self.ray, self._held = group.ray, group.held
        self._load = dict.fromkeys(group.actors, 0)
        self._models: dict[int, tuple[Vector, Any]] = {}
        self._jobs: dict[tuple[int, int], Job] = {}
        self._sent: dict[Any, tuple[Job, Any]] = {}  # the promise of a result -> its job and actor
        self._waiting = Waiting()

    def announce(self, request: Request, finish_s: float) -> None:
        if request.steps and request.key not in self._jobs:
            self._jobs[request.key] = Job(request)
            self._waiting.add(self._jobs[request.key], finish_s)

    def result(self, request: Request) -> Vector:
        if not request.steps:
            return np.zeros_like(request.start)
        job = self._jobs.get(request.key)
        if job is None or not request.same_as(job.request):
            self.forget(request.key)
            job = self._jobs[request.key] = Job(request)
            self._waiting.add(job, float("-inf"))
        self._hand_out()
        while job.order is None or job.order in self._sent:
            self._rest(job)
        del self._jobs[request.key]
        return np.array(self.ray.get(job.order))

    def forget(self, key: Key) -> None:
        job = self._jobs.pop(key, None)
        if job is not None:
            self._waiting.forget(job)

    def close(self) -> None:
        """Announced requests that were never needed are dropped; the actors wait for the next run."""
        for promise in self._sent:
            self.ray.cancel(promise)
        self._jobs.clear()
        self._sent.clear()
        self._models.clear()

    def _hand_out(self) -> None:
        while (job := self._waiting.next()) is not None:
            actor = min(self._load, key=self._load.__getitem__)
            if self._load[actor] >= DEPTH:
                return
            self._waiting.left(job)
            self._send(actor, job)

    def _send(self, actor: Any, job: Job) -> None:
        job.order = self._ask(actor, job.request)
        self._load[actor] += 1
        self._sent[job.order] = job, actor

    def _ask(self, actor: Any, request: Request) -> Any:
        fields = {**request.without_vectors(), "memory": request.memory}
        return actor.solve.remote(self._held, [self._stored(request.start)], request.correction, fields)

    def _stored(self, start: Vector) -> Any:
        """The object store's name for a model; written once."""
        if id(start) not in self._models:
            if len(self._models) == MODELS:
                del self._models[next(iter(self._models))]
            self._models[id(start)] = start, self.ray.put(start)
        return self._models[id(start)][1]

    def _rest(self, needed: Job) -> None:
        """Wait for some result, and send the next requests."""
        done, _ = self.ray.wait(list(self._sent), num_returns=1, timeout=PATIENCE_S)
        for promise in done:
            job, actor = self._sent.pop(promise)
            job.order = promise  # the first of several answers
            self._load[actor] -= 1
        if not done:
            self._ask_another(needed)
        self._hand_out()

    def _ask_another(self, job: Job) -> None:
        """Of an actor that was on a lost node, and finds no place on another one, no answer ever comes."""
        idle = [actor for actor, load in self._load.items() if not load]
        if job.order is not None and idle:
            self._send(idle[0], job)


def started(workers: int) -> Any:
    """Ray, connected."""
    try:
        ray: Any = importlib.import_module("ray")
    except ImportError:
        raise ConfigError("compute 'ray' must have Ray installed: pip install 'fedpace[ray]'") from None
    if not ray.is_initialized():
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        if "RAY_ADDRESS" in os.environ:
            ray.init(**quiet)
        else:
            # "local": else Ray looks for a cluster of others on this machine, or for what a killed one has left
            here: dict[str, Any] = {"address": "local", "_node_ip_address": "127.0.0.1"}
            ray.init(num_cpus=workers, include_dashboard=False, **here, **quiet)
    return ray
