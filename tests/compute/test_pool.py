"""The pool: what was asked for, once, in the right order, whatever happens to the workers."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from multiprocessing.context import SpawnProcess
from pathlib import Path

import numpy as np
import pytest
from tests.compute.marked import SIZE, Marks, ask, expected

from fedpace.compute import Request, engine, queues, workers
from fedpace.compute.pool import Job, Pool, Waiting
from fedpace.errors import ConfigError, FedpaceError


@pytest.fixture(autouse=True)
def nobody_stays() -> Iterator[None]:
    yield
    workers.release()
    left = list(workers._standing)
    workers.end_all()  # what a test that failed has left at work is no concern of the next
    assert left == []


def pids(pool: Pool) -> list[int]:
    return [worker.process for worker in pool._group.workers]


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_results_are_those_of_the_task(workers: int) -> None:
    pool = Pool(Marks(), workers)
    shared = np.arange(SIZE) / 3
    requests = [ask(client, session=client % 3, start=shared, steps=1 + client % 4) for client in range(40)]
    for request in requests:
        pool.announce(request, finish_s=100.0 - request.client)
    for request in requests:
        np.testing.assert_array_equal(pool.result(request), expected(request))
    pool.close()


def test_solves_run_in_the_workers() -> None:
    pool = Pool(Marks(lambda request: os.environ.__setitem__("SEEN", "yes")), 1)
    pool.result(ask(1))
    assert "SEEN" not in os.environ
    pool.close()


def test_a_result_that_was_never_announced() -> None:
    pool = Pool(Marks(), 2)
    request = ask(3, correction=np.full(SIZE, 0.5))
    np.testing.assert_array_equal(pool.result(request), expected(request))
    pool.close()


def test_single_precision_stays_single() -> None:
    pool = Pool(Marks(), 1)
    start = np.ones(SIZE, np.float32)

    class Halves(Marks):
        def solve(self, request):
            return request.start / 2

    pool.close()
    pool = Pool(Halves(), 1)
    assert pool.result(ask(0, start=start)).dtype == np.float32
    pool.close()


def test_no_steps_no_work() -> None:
    pool = Pool(Marks(lambda request: os._exit(1)), 1)
    pool.announce(ask(1, steps=0), 1.0)
    np.testing.assert_array_equal(pool.result(ask(1, steps=0)), np.zeros(SIZE))
    pool.close()


def test_what_is_asked_counts_not_what_was_announced() -> None:
    """A session announced with other contents (it was cut short since) is solved as it is now."""
    pool = Pool(Marks(), 2)
    start = np.ones(SIZE)
    pool.announce(ask(1, start=start, steps=9), 1.0)
    pool.announce(ask(2, start=start), 2.0)
    pool.result(ask(2, start=start))
    now = ask(1, start=start, steps=4)
    np.testing.assert_array_equal(pool.result(now), expected(now))
    pool.close()


def test_forgotten_requests_are_not_solved(tmp_path: Path) -> None:
    pool = Pool(Marks(lambda request: (tmp_path / str(request.client)).touch()), 1)
    requests = [ask(client) for client in range(6)]
    for request in requests:
        pool.announce(request, request.client)
    for request in requests[2:5]:
        pool.forget(request.key)
    pool.forget(ask(99).key)
    for request in (*requests[:2], requests[5]):
        pool.result(request)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1", "5"]
    pool.close()


def test_more_results_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Computed ahead as far as the memory goes; asked for in the opposite order, all are right."""
    monkeypatch.setattr(queues, "AHEAD_BYTES", 1)
    pool = Pool(Marks(), 2)
    room = pool._group.results.free
    requests = [ask(client, start=np.full(SIZE, client / 7)) for client in range(3 * room)]
    for request in requests:
        pool.announce(request, float(request.client))
    for request in reversed(requests):
        np.testing.assert_array_equal(pool.result(request), expected(request))
    pool.close()
    assert pool._group.results.free == room


def test_failures_make_room_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed solve whose slot was needed gives it back once, whether it is asked for or forgotten."""

    def before(request):
        if request.client < 4:
            raise ValueError("no")

    monkeypatch.setattr(queues, "AHEAD_BYTES", 1)
    pool = Pool(Marks(before), 2)
    room = pool._group.results.free
    requests = [ask(client) for client in range(3 * room)]
    for request in requests:
        pool.announce(request, float(request.client))
    for request in reversed(requests[4:]):
        np.testing.assert_array_equal(pool.result(request), expected(request))
    for request in requests[:2]:
        with pytest.raises(ValueError, match="no"):
            pool.result(request)
    pool.close()
    assert pool._group.results.free == room


# ---------------------------------------------------------------- order


def test_within_a_round_the_longest_goes_first() -> None:
    waiting = Waiting()
    jobs = [Job(ask(client, steps=steps)) for client, steps in enumerate((2, 7, 4))]
    for finish_s, job in enumerate(jobs):
        waiting.add(job, finish_s)
    assert _drained(waiting) == [1, 2, 0]


def test_across_versions_the_first_needed_goes_first() -> None:
    waiting = Waiting()
    for client, (version, steps, finish_s) in enumerate([(3, 2, 5.0), (4, 7, 1.0), (4, 9, 9.0), (4, 8, 3.0)]):
        waiting.add(Job(ask(client, version=version, steps=steps)), finish_s)
    assert _drained(waiting) == [1, 3, 0, 2]


def test_ties_go_in_the_order_of_announcement() -> None:
    waiting = Waiting()
    for client in range(4):
        waiting.add(Job(ask(client, version=client % 2)), 1.0)
    assert _drained(waiting) == [0, 1, 2, 3]


def _drained(waiting: Waiting) -> list[int]:
    order = []
    while (job := waiting.next()) is not None:
        order.append(job.request.client)
        job.wanted = False
        waiting.left(job)
    return order


# ---------------------------------------------------------------- when things go wrong


def test_a_killed_worker_only_costs_its_solves(tmp_path: Path) -> None:
    """kill -9 in the middle of a solve: done again, same bits, and the pool is at full strength."""

    def before(request):
        mark = tmp_path / str(request.client)
        if request.client % 5 == 0 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    pool = Pool(Marks(before), 2)
    first = pids(pool)
    requests = [ask(client) for client in range(12)]
    for request in requests:
        pool.announce(request, 1.0)
    for request in requests:
        np.testing.assert_array_equal(pool.result(request), expected(request))
    assert {path.name for path in tmp_path.iterdir()} == {"0", "5", "10"}
    assert len(pids(pool)) == 2 and pids(pool) != first
    pool.close()


def test_workers_killed_while_idle_are_replaced() -> None:
    pool = Pool(Marks(), 2)
    pool.result(ask(0))
    for process in pids(pool):
        os.kill(process, signal.SIGKILL)
    time.sleep(0.05)
    requests = [ask(client) for client in range(6)]
    for request in requests:
        pool.announce(request, 1.0)
    for request in requests:
        np.testing.assert_array_equal(pool.result(request), expected(request))
    pool.close()


def test_a_solve_that_kills_every_worker_is_given_up() -> None:
    pool = Pool(Marks(lambda request: os.kill(os.getpid(), signal.SIGKILL)), 2)
    processes = pids(pool)
    with pytest.raises(FedpaceError, match="client 3 session 8: 3 workers died over it"):
        pool.result(ask(3, session=8))
    pool.close()
    assert pids(pool) == [] and not any(map(is_running, processes))


def test_an_error_of_the_task_is_raised_where_it_is_asked_for() -> None:
    def before(request):
        if request.client == 2:
            raise ZeroDivisionError("two is one too many")

    pool = Pool(Marks(before), 2)
    requests = [ask(client) for client in range(4)]
    for request in requests:
        pool.announce(request, 1.0)
    np.testing.assert_array_equal(pool.result(requests[0]), expected(requests[0]))
    with pytest.raises(ZeroDivisionError, match="two is one too many") as raised:
        pool.result(requests[2])
    assert "in a worker process" in raised.value.__notes__[0]
    np.testing.assert_array_equal(pool.result(requests[3]), expected(requests[3]))
    pool.close()


def test_an_error_that_cannot_travel_is_told_in_words() -> None:
    def before(request):
        error = ValueError("local", lambda: None)
        raise error

    pool = Pool(Marks(before), 1)
    with pytest.raises(RuntimeError, match="ValueError"):
        pool.result(ask(0))
    pool.close()


class Peculiar(Exception):
    """Pickles, and does not unpickle: its arguments are not those it is made with."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"{what} because of {why}")


def test_an_error_that_arrives_as_another_is_told_in_words() -> None:
    def before(request):
        raise Peculiar("it failed", "the weather")

    pool = Pool(Marks(before), 1)
    with pytest.raises(RuntimeError, match="it failed because of the weather"):
        pool.result(ask(0))
    pool.close()


def test_a_run_that_is_refused_keeps_no_workers() -> None:
    import fedpace

    algorithm, task = fedpace.algorithms.fedavg(steps=1), fedpace.tasks.quadratics([0.0, 1.0])
    for _ in range(2):
        with pytest.raises(ConfigError, match="rounds must be a whole number"):
            fedpace.simulate(algorithm, task, rounds=0, compute="pool", workers=2)
    assert not any(each.busy for each in workers._standing) and len(workers._standing) <= 1


@pytest.fixture
def ctrl_c_is_heard() -> Iterator[None]:
    """Though whoever started the tests may have had it ignored (`nohup ... &`)."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupted_wait_ends_the_workers(ctrl_c_is_heard: None) -> None:
    """Ctrl-C comes while the worker trains, and is not waited for to the end."""
    here = os.getpid()

    def before(request: Request) -> None:
        os.kill(here, signal.SIGINT)
        time.sleep(600)

    pool = Pool(Marks(before), 2)
    processes = pids(pool)
    with pytest.raises(KeyboardInterrupt):
        pool.result(ask(0))
    assert not any(map(is_running, processes))
    pool.close()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_an_interrupt_while_workers_are_started_leaves_none(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C between the start of a process and the moment somebody knows of it: it waits that long."""
    started: list[int] = []

    def fork() -> int:
        process = os_fork()
        if process:
            started.append(process)
            signal.raise_signal(signal.SIGINT)
        return process

    def start(process: SpawnProcess) -> None:
        spawn_start(process)
        started.append(process.pid or 0)
        signal.raise_signal(signal.SIGINT)

    os_fork, spawn_start = os.fork, SpawnProcess.start
    monkeypatch.setattr(os, "fork", fork)
    monkeypatch.setattr(SpawnProcess, "start", start)
    monkeypatch.setenv("FEDPACE_START_METHOD", method)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            Pool(Marks(), 2)
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(started) == 1 and not is_running(started[0])


# ---------------------------------------------------------------- from run to run


def test_workers_stay_for_the_next_run_of_the_task() -> None:
    task = Marks()
    pool = Pool(task, 2)
    first = pids(pool)
    pool.announce(ask(1), 1.0)
    pool.announce(ask(2), 1.0)
    pool.result(ask(3))
    pool.close()  # with two solves that nobody asked for under way
    again = Pool(task, 2)
    assert pids(again) == first
    request = ask(1, start=np.full(SIZE, 4.0))
    np.testing.assert_array_equal(again.result(request), expected(request))
    again.close()


@pytest.mark.parametrize("change", ["task", "workers"])
def test_another_task_or_size_has_workers_of_its_own(change: str) -> None:
    task = Marks()
    pool = Pool(task, 2)
    first = pids(pool)
    pool.close()
    other = Pool(Marks(), 2) if change == "task" else Pool(task, 1)
    assert not set(pids(other)) & set(first)
    assert not any(map(is_running, first))
    other.close()


def test_two_runs_at_a_time_do_not_share_workers() -> None:
    task = Marks()
    one, two = Pool(task, 1), Pool(task, 1)
    assert pids(one) != pids(two)
    request = ask(4)
    np.testing.assert_array_equal(two.result(request), expected(request))
    np.testing.assert_array_equal(one.result(request), expected(request))
    one.close()
    two.close()


def test_the_task_is_prepared_before_the_workers_are_forked() -> None:
    class Prepared(Marks):
        ready = 0.0

        def prepare(self):
            self.ready = 1.0

        def solve(self, request):
            return np.full(SIZE, self.ready)

    pool = Pool(Prepared(), 1)
    np.testing.assert_array_equal(pool.result(ask(0)), np.ones(SIZE))
    pool.close()


def test_the_engine_by_name() -> None:
    pool = engine("pool", Marks(), 2)
    assert isinstance(pool, Pool)
    assert pool.name == "pool of 2 workers"
    pool.close()
