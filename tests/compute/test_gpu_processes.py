"""Whole runs on a GPU in processes of their own: spawned, each with its turn, or on Ray with a share of a GPU."""

from __future__ import annotations

import os
import pickle
import sys
import threading
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tests.compute.marked import Marks, ask, expected

import fedpace
from fedpace.algorithms import fedavg
from fedpace.compute import cluster, sharing, workers
from fedpace.compute.device import Accelerator, device
from fedpace.compute.pool import Pool
from fedpace.compute.processes import processes
from fedpace.errors import ConfigError

MARK = "fedpace_copied"  # an attribute of `sys`, which a copy of this process has as well


class OnGpu(Marks):
    """A task on a pretended GPU, which a copy of the process that has used it cannot use."""

    def __init__(self) -> None:
        super().__init__()
        self.device = SimpleNamespace(is_host=False)

    def evaluate(self, x: np.ndarray) -> dict[str, float]:
        if hasattr(sys, MARK) and getattr(sys, MARK) != os.getpid():
            raise RuntimeError("Cannot re-initialize CUDA in forked subprocess")
        setattr(sys, MARK, os.getpid())
        return {"loss": float(x.sum())}


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A process that shares nothing yet, and leaves no mark."""
    monkeypatch.setattr(sharing, "here", sharing.GpuPlace())
    yield
    if hasattr(sys, MARK):
        delattr(sys, MARK)


def test_a_comparison_on_a_gpu_runs_in_processes_that_can_use_it() -> None:
    rows = {"1": fedavg(steps=1), "2": fedavg(steps=2)}
    one, two = (fedpace.compare(rows, OnGpu(), rounds=2, seeds=1, workers=n) for n in (1, 2))
    for row in rows:
        assert one.rows[row][0].run.history == two.rows[row][0].run.history


@pytest.mark.long
def test_a_sweep_on_a_gpu_runs_in_processes_that_can_use_it() -> None:
    found = fedpace.sweep(fedavg, OnGpu(), grid={"client_lr": [0.1, 0.2]}, rounds=2, workers=2)
    assert {point.states[-1] for point in found.points} == {"done"}


def test_processes_have_their_turns() -> None:
    with processes(lambda n: sharing.here.number, 2, gpu=True) as pool:
        asked = [pool.submit(n) for n in range(8)]
        assert {each.result() for each in asked} <= {0, 1}
        assert [child.ask(0) for child in pool._children] == [0, 1]  # type: ignore[union-attr]


class Half(Accelerator):
    """A GPU with a thousand free bytes."""

    def free_bytes(self) -> int:
        return 1000


@pytest.mark.parametrize(("gpus", "name", "sharers"), [(1, "cuda", 5), (2, "cuda", 3), (2, "cuda:1", 5)])
def test_processes_divide_the_memory_of_a_gpu(
    monkeypatch: pytest.MonkeyPatch, gpus: int, name: str, sharers: int
) -> None:
    """Four workers and their parent: together they claim no more for data than one would alone."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch.cuda, "set_device", lambda number: None)
    assert Half(name).data_bytes == 500
    shared = sharing.divide(4)
    assert Half(name).data_bytes == 500 // sharers
    sharing.use_in_turn(3, shared)
    assert Half(name).data_bytes == 500 // sharers
    assert sharing.divide(1) == 2 * shared  # a worker with a worker of its own


def test_workers_of_a_pool_know_how_many_share_a_gpu() -> None:
    group = workers.WorkerGroup(Counts(), 2, False, "spawn")
    try:
        assert sharing.here.children == 2 and group._how.processes == 3  # type: ignore[union-attr]
        pool = Pool(Counts(), 1)
        assert pool.result(ask(1)).tolist()[:1] == [2.0]
        pool.close()
    finally:
        group.stop()
        workers.end_all()


class Counts(OnGpu):
    """Its deltas say how many processes share the GPU."""

    def solve(self, request: Any) -> np.ndarray:
        return np.full(5, float(sharing.here.processes * (1 + sharing.here.children)))


def test_what_cannot_be_sent_is_refused_in_one_line() -> None:
    lock = threading.Lock()
    with pytest.raises(ConfigError) as error, processes(lambda n: lock.locked(), 2, gpu=True):
        pass
    assert str(error.value) == (
        "task and algorithms in several processes that are not forked (workers=1 needs no other) must be what can be "
        "pickled; got TypeError: cannot pickle '_thread.lock' object"
    )


def lost() -> None:
    raise ImportError("no such module there")


class Lost:
    """Can be pickled, and not unpickled."""

    def __call__(self, n: int) -> int:
        return n

    def __reduce__(self) -> tuple[Any, ...]:
        return lost, ()


def test_what_does_not_arrive_is_refused_in_one_line() -> None:
    with (
        processes(Lost(), 2, gpu=True) as pool,
        pytest.raises(ConfigError, match="must be what can be pickled"),
    ):
        pool.submit(1).result()


# ------------------------------------------------------------------------ Ray


class Ray:
    """A cluster of four cores and some GPUs, which calls at once what it is given and notes what was asked for."""

    def __init__(self, gpus: float) -> None:
        self.gpus, self.needs, self.made = gpus, list[dict[str, Any]](), list[Any]()

    def is_initialized(self) -> bool:
        return True

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 4.0, "GPU": self.gpus}

    def put(self, value: Any) -> bytes:
        return pickle.dumps(value)

    def get(self, value: bytes) -> Any:
        return pickle.loads(value)

    def shutdown(self) -> None: ...

    def remote(self, **needs: Any) -> Any:
        self.needs.append(needs)
        return lambda function: SimpleNamespace(remote=lambda *given: self._called(function, given))

    def _called(self, function: Any, given: tuple[Any, ...]) -> Any:
        self.made.append(function(*given))
        promise: Future[Any] = Future()
        promise.set_result(self.made[-1])
        return SimpleNamespace(future=lambda: promise)


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Ray:
    found = Ray(gpus=1.0)
    monkeypatch.setitem(sys.modules, "ray", found)
    return found


@pytest.mark.parametrize(("count", "share"), [(2, 1 / 2), (None, 1 / 4)])
def test_points_of_a_sweep_ask_ray_for_their_share_of_a_gpu(ray: Ray, count: int, share: float) -> None:
    with processes(lambda n: 2 * n, count, ray=True, gpu=True) as pool:
        assert pool.submit(3).result() == 6
    assert ray.needs == [{"num_cpus": 1, "num_gpus": share}]


def test_without_a_gpu_none_is_asked_for(ray: Ray) -> None:
    with processes(lambda n: 2 * n, 2, ray=True) as pool:
        assert pool.submit(3).result() == 6
    assert ray.needs == [{"num_cpus": 1, "num_gpus": 0.0}]


def test_a_cluster_without_a_gpu_is_refused(ray: Ray) -> None:
    ray.gpus = 0
    with pytest.raises(ConfigError, match="no node of it has a GPU"):
        processes(lambda n: n, 2, ray=True, gpu=True)


def test_a_process_of_ray_calls_the_one_gpu_it_sees_by_its_name_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`cuda:1` of the caller is not there: a process of Ray sees one GPU, and that is `cuda`."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    sent = pickle.dumps(Accelerator("cuda:1", "bf16"))
    assert pickle.loads(sent).name == "cuda:1"
    sharing.use_assigned(1)
    arrived = pickle.loads(sent)
    assert (arrived.name, arrived.precision) == ("cuda", "bf16")
    assert device("cuda:1").name == "cuda"


def test_actors_and_sweeps_unpack_their_task_once_they_know_their_gpu(ray: Ray) -> None:
    gpu = Accelerator("cuda:1")
    with processes(lambda n: gpu.name, 2, ray=True, gpu=True) as pool:
        assert pool.submit(0).result() == "cuda"
    sharing.here = sharing.GpuPlace()
    group = cluster.Actors(ray, HasDevice(), 2)
    [actor, _] = ray.made[-2:]
    asked = ask(1)
    found = actor.solve(group.held, [ray.put(asked.start)], None, asked.without_vectors())
    np.testing.assert_array_equal(found, expected(asked))
    assert actor.task.device.name == "cuda" and sharing.processes_on("cuda") == 2
    assert ray.needs[-1]["num_gpus"] == 1 / 2


class HasDevice(Marks):
    def __init__(self) -> None:
        self.device = Accelerator("cuda:1")

    def solve(self, request: Any) -> np.ndarray:
        return expected(request)
