"""Workers that are spawned: the bits of `inline`, and no pool where a task cannot be sent."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.compute.marked import SIZE, Marks, ask, expected

import fedpace
from fedpace import algorithms, tasks
from fedpace.compute import Inline, engine, workers
from fedpace.compute.pool import Pool
from fedpace.compute.process import NoWorkerError
from fedpace.compute.vectorised import Vectorised
from fedpace.errors import ConfigError, FedpaceError
from fedpace.sim import Population

ROOT = Path(__file__).parents[2]
HERE = os.getpid()


@pytest.fixture(autouse=True)
def spawning(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("FEDPACE_START_METHOD", "spawn")
    yield
    workers.end_all()


def run(task: tasks.TorchTask, compute: str) -> fedpace.Run:
    local = {"client_lr": 0.1, "epochs": 1, "batch_size": 8}
    algorithm = algorithms.scaffold(**local, clients_per_round=4)  # type: ignore[arg-type]
    devices = Population.half_normal(2.0)
    return fedpace.simulate(
        algorithm, task, devices, rounds=4, seed=3, keep_models=True, compute=compute, workers=1
    )


def test_a_pool_gives_the_bits_of_inline() -> None:
    task = tasks.load("digits", clients=12, partition="dirichlet:0.5", model="mlp", seed=1)
    here, there = run(task, "inline"), run(task, "pool")
    assert there.summary["compute"].startswith("pool of 1 worker")
    assert {kept.method for kept in workers._standing} == {"spawn"}
    assert here.models is not None and there.models is not None and len(here.models) == 4
    for a, b in zip(here.models, there.models, strict=True):
        np.testing.assert_array_equal(a, b)
    assert here.history == there.history


def test_closures_travel_and_a_killed_worker_is_replaced(tmp_path: Path) -> None:
    """Its solves are done again, as those of a forked one are; vectors and corrections cross in shared memory."""

    def before(request):
        mark = tmp_path / str(request.client)
        if request.client == 5 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        mark.write_text(str(os.getpid()), encoding="utf-8")

    pool = Pool(Marks(before), 2)
    first = [worker.process for worker in pool._group.workers]
    requests = [ask(client, correction=np.full(SIZE, client / 3)) for client in range(1, 12)]
    for request in requests:
        pool.announce(request, 1.0)
    for request in requests:
        np.testing.assert_array_equal(pool.result(request), expected(request))
    now = [worker.process for worker in pool._group.workers]
    assert len(now) == 2 and len(set(now) & set(first)) == 1
    solved_by = {int((tmp_path / str(request.client)).read_text()) for request in requests}
    assert solved_by <= {*first, *now} and HERE not in solved_by
    pool.close()


@pytest.mark.parametrize(
    ("name", "kind", "said"), [("pool", Inline, "inline"), ("vectorised", Vectorised, "vectorised")]
)
def test_a_task_that_cannot_be_pickled_is_trained_in_this_process(name: str, kind: type, said: str) -> None:
    task = Marks()
    task.held = threading.Lock()
    reason = r"the task cannot be sent to a worker process \(TypeError: cannot pickle '_thread.lock' object\)"
    line = rf"^{reason}; local training runs in this process \({said}\)$"
    with pytest.warns(UserWarning, match=line):
        alone = engine(name, task, 2)
    assert type(alone) is kind and workers._standing == []
    np.testing.assert_array_equal(alone.result(ask(4)), expected(ask(4)))


class Homesick(Marks):
    """Pickles, and unpickles in no other process than this."""

    def __reduce__(self):
        return (lambda home: Marks() if os.getpid() == home else 1 // 0), (HERE,)


class Fatal(Marks):
    """Ends the process that unpickles it."""

    def __reduce__(self):
        return os._exit, (7,)


class Viewing(Marks):
    """Has a vector, and a view of it that pickling takes for a vector of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.whole = np.zeros(SIZE)
        self.view = self.whole[:]

    def solve(self, request):
        self.whole[:] = request.start
        return self.view * 2


@pytest.mark.parametrize(
    ("task", "reason"),
    [
        (Homesick(), "ZeroDivisionError: integer"),
        (Fatal(), "the process ended before it had it"),
        (Viewing(), "what arrives there computes something else"),
    ],
    ids=["error", "death", "views"],
)
def test_nor_is_there_a_pool_for_a_task_that_does_not_arrive(task: Marks, reason: str) -> None:
    with pytest.warns(UserWarning, match=reason):
        alone = engine("pool", task, 2)
    assert isinstance(alone, Inline) and not multiprocessing.active_children()


def test_a_worker_that_cannot_be_replaced_ends_the_run_with_a_line(tmp_path: Path) -> None:
    """Its task arrives twice, and no third time."""

    class Twice(Marks):
        def __reduce__(self):
            def make(folder):
                (folder / str(os.getpid())).touch()
                return Marks(die) if len(list(folder.iterdir())) < 3 else 1 // 0

            def die(request):
                if request.client == 3:
                    os._exit(1)

            return make, (tmp_path,)

    pool = Pool(Twice(), 2)
    with pytest.raises(FedpaceError, match=r"cannot be sent to a worker process \(ZeroDivisionError"):
        pool.result(ask(3))
    pool.close()
    assert not multiprocessing.active_children()


def test_a_daemonic_process_trains_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(multiprocessing.current_process()._config, "daemon", True)  # type: ignore[attr-defined]
    with pytest.raises(NoWorkerError, match="a daemonic process cannot start worker processes"):
        Pool(Marks(), 1)


def test_an_unknown_start_method_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDPACE_START_METHOD", "spwan")
    with pytest.raises(
        ConfigError,
        match=r"did you mean spawn\? FEDPACE_START_METHOD must be one of fork, spawn; got 'spwan'",
    ):
        Pool(Marks(), 1)


def test_workers_of_another_start_method_are_not_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    task = Marks()
    Pool(task, 1).close()
    monkeypatch.setenv("FEDPACE_START_METHOD", "fork")
    Pool(task, 1).close()
    assert [kept.method for kept in workers._standing] == ["fork"]
    assert not multiprocessing.active_children()


SCRIPT = """
import os
from dataclasses import dataclass
import numpy as np
import fedpace
from fedpace.local import SGD
from fedpace.vector import Layout

print("once", os.path.basename(__file__))

@dataclass(frozen=True)
class Own(SGD):
    pull: float = 0.5

class Centers:
    name, clients, layout = "centers", 3, Layout.of({"x": (2,)})
    def initial(self, seed): return np.zeros(2)
    def samples(self, client): return 1.0
    def solve(self, request): return request.local.pull * (client_center(request.client) - request.start)
    def evaluate(self, x): return {"loss": float(x @ x)}

def client_center(client):
    return np.array([client, 1.0])

algorithm = fedpace.Algorithm(local=Own(0.1, steps=1))
run = fedpace.simulate(algorithm, Centers(), rounds=1, compute="pool", workers=2)
print(run.summary["compute"], *run.model)
"""


def test_a_script_needs_no_guard_and_may_define_everything_itself(tmp_path: Path) -> None:
    """It is run once, though its workers know its classes: half the way to the mean of three centers."""
    (tmp_path / "own.py").write_text(SCRIPT, encoding="utf-8")
    command, env = [sys.executable, "-W", "error", "own.py"], {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    said = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert (said.stdout, said.stderr) == ("once own.py\npool of 2 workers 0.5 0.5\n", "")
