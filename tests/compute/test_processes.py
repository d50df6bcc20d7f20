"""Processes that call a function: results, errors, and that none outlives its parent."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from fedpace.compute.processes import processes
from fedpace.errors import ConfigError, FedpaceError


@pytest.mark.parametrize("count", [1, 2])
def test_every_argument_is_answered(count: int) -> None:
    factor = 3  # a closure: nothing that could be imported
    with processes(lambda n: factor * n, count) as pool:
        assert pool.count == count
        assert [pool.submit(n).result() for n in range(5)] == [0, 3, 6, 9, 12]


def refuse(_: object) -> None:
    raise ConfigError("n must be odd; got 2")


def test_our_errors_come_back_as_they_are() -> None:
    with processes(refuse, 2) as pool, pytest.raises(ConfigError, match="^n must be odd; got 2$"):
        pool.submit(2).result()


def test_other_errors_say_where_they_came_from() -> None:
    with processes(lambda n: 1 // n, 2) as pool, pytest.raises(RuntimeError, match="ZeroDivisionError"):
        pool.submit(0).result()


def test_a_process_that_dies_is_an_error_and_not_a_wait() -> None:
    with processes(lambda n: os._exit(n), 2) as pool, pytest.raises(FedpaceError, match="has ended"):
        pool.submit(7).result()


KILLED = """
import os, time
from fedpace.compute.processes import processes

def say(n):
    print(os.getpid(), flush=True)
    time.sleep(3600)

with processes(say, 2) as pool:
    pool.submit(1).result()
"""


def test_processes_end_with_a_parent_that_is_killed(tmp_path) -> None:
    (tmp_path / "parent.py").write_text(KILLED)
    with subprocess.Popen(
        [sys.executable, str(tmp_path / "parent.py")], stdout=subprocess.PIPE, text=True
    ) as parent:
        worker = int(parent.stdout.readline())
        parent.kill()
        parent.stdout.close()
    for _ in range(10_000):
        try:
            os.kill(worker, 0)
        except ProcessLookupError:
            return
        time.sleep(0.02)
    pytest.fail("the process works on for nobody")
