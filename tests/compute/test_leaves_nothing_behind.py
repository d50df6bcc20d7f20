"""However a process with a pool ends, its workers end with it, and nothing stays in shared memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMED = ("psm_*", "pym-*", "torch_*")  # what shared memory of Python and of torch is called

SCRIPT = """
import signal, sys, time
import fedpace
from fedpace.compute import workers

task = fedpace.tasks.quadratics([1.0, 2.0, 3.0])
algorithm = fedpace.algorithms.fedavg(client_lr=0.1, steps=2)
how = sys.argv[1]
if how == "interrupt":
    signal.signal(signal.SIGINT, signal.default_int_handler)

class Told(fedpace.sim.Observer):
    def recorded(self, record, x):
        if record.version == 3:
            print(*(worker.process for kept in workers._standing for worker in kept.workers), flush=True)
            if how == "raise":
                raise RuntimeError("as planned")
            if how in ("interrupt", "kill"):
                time.sleep(3600)
            if how == "ignore":
                sys.stdin.readline()

fedpace.simulate(algorithm, task, rounds=5, compute="pool", workers=2, observers=[Told()])
"""


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def segments() -> set[Path]:
    return {path for name in NAMED for path in Path("/dev/shm").glob(name)}


@contextmanager
def training(how: str, method: str) -> Iterator[subprocess.Popen[str]]:
    """A process that trains, and that is started with Ctrl-C ignored, as a shell does with `command &`."""
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "FEDPACE_START_METHOD": method},
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("how", "method"),
    [
        *((how, "fork") for how in ("return", "raise", "interrupt", "ignore", "kill")),
        *((how, "spawn") for how in ("return", "interrupt", "kill")),
    ],
)
def test_no_process_and_no_segment_is_left(how: str, method: str) -> None:
    """A run that is told to ignore Ctrl-C does, and so do its workers; else it is interrupted."""
    before = segments()
    with training(how, method) as process:
        assert process.stdout is not None
        workers = [int(word) for word in process.stdout.readline().split()]
        assert len(workers) == 2
        if how in ("interrupt", "ignore"):
            os.killpg(process.pid, signal.SIGINT)  # Ctrl-C reaches the workers, too
        elif how == "kill":
            process.kill()
        _, errors = process.communicate(timeout=600)
    assert (process.returncode == 0) == (how in ("return", "ignore"))
    deadline = time.monotonic() + 300
    while any(map(is_running, workers)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(map(is_running, workers))
    assert segments() <= before
    assert errors.count("Traceback") == (how in ("raise", "interrupt")), errors
