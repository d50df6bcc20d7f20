"""The lock of a folder belongs to one process, and ends with its work and with its life."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import fedpace
from fedpace import algorithms
from fedpace.disk.locks import is_locked, locked
from fedpace.errors import ConfigError
from fedpace.record import Checkpoints
from fedpace.sim.observer import StepRecord
from fedpace.tasks import quadratics

ROOT = Path(__file__).parents[2]
ROUNDS = 40


def simulate(folder: Path | None, **more: object) -> fedpace.Run:
    plan = None if folder is None else Checkpoints(folder, every=4)
    algorithm, task = algorithms.fedavg(client_lr=0.25, steps=2), quadratics([[1.0, -2.0], [4.0, 0.5]])
    return fedpace.simulate(algorithm, task, rounds=ROUNDS, checkpoint=plan, **more)  # type: ignore[arg-type]


class Misfortune(fedpace.sim.Observer):
    """Kills a worker at step 4, and when another has taken its place says who they are and waits."""

    def __init__(self) -> None:
        self.first: list[int] = []

    def recorded(self, record: StepRecord, x: object) -> None:
        from fedpace.compute import workers

        workers = [worker.process for kept in workers._standing for worker in kept.workers]
        if record.version == 4:
            self.first = workers
            os.kill(workers[0], signal.SIGKILL)
        elif record.version > 4 and workers != self.first:
            print(*workers, flush=True)
            signal.pause()


@contextmanager
def owner(call: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process of its own that calls a function of this page with the folder."""
    code = f"import sys; from pathlib import Path; from test_locks import *; {call}(Path(sys.argv[1]))"
    paths = os.pathsep.join(map(str, (ROOT / "src", Path(__file__).parent)))
    command, env = [sys.executable, "-c", code, str(folder)], {**os.environ, "PYTHONPATH": paths}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as process:
        try:
            yield process
        finally:
            process.kill()


def locks_and_forks(folder: Path) -> None:
    ready, started = os.pipe()
    with locked(folder):
        if child := os.fork():
            os.read(ready, 1)  # a child that is stopped in its first instant has not let go of the lock yet
            print(child, flush=True)
        else:
            os.write(started, b".")
        signal.pause()


def trains_with_workers(folder: Path) -> None:
    simulate(folder, compute="pool", workers=2, observers=[Misfortune()])


@contextmanager
def stopped(processes: list[int]) -> Iterator[None]:
    """They do nothing at all, not even notice that nobody listens any more."""
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


def test_a_folder_without_a_lock_is_free_and_stays_as_it_is(tmp_path: Path) -> None:
    assert not is_locked(tmp_path) and not is_locked(tmp_path / "missing")
    assert list(tmp_path.iterdir()) == []


def test_it_is_held_once_and_asking_does_not_end_it(tmp_path: Path) -> None:
    with locked(tmp_path):
        assert is_locked(tmp_path) and is_locked(tmp_path)
        with pytest.raises(ConfigError, match="must not be in use; another process is working in it"):
            locked(tmp_path).__enter__()
    assert not is_locked(tmp_path)


def test_it_ends_with_the_work_though_a_process_forked_meanwhile_lives_on(tmp_path: Path) -> None:
    with locked(tmp_path):
        child = os.fork()
        if not child:
            signal.pause()
            os._exit(0)
        assert is_locked(tmp_path)
    with stopped([child]):
        assert not is_locked(tmp_path)
    os.waitpid(child, 0)


@pytest.mark.parametrize("call", ["locks_and_forks", "trains_with_workers"])
def test_it_ends_with_its_owner_though_processes_it_forked_are_stopped(call: str, tmp_path: Path) -> None:
    """Also where a worker was replaced while the folder was locked; and the run then goes on to the same bits."""
    with owner(call, tmp_path) as process:
        assert process.stdout is not None
        forked = [int(word) for word in process.stdout.readline().split()]
        with stopped(forked):
            assert forked and is_locked(tmp_path)
            process.kill()
            process.wait()
            assert not is_locked(tmp_path)
            if call == "trains_with_workers":
                assert simulate(tmp_path).model.tobytes() == simulate(None).model.tobytes()
