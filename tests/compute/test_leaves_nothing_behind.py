"""However a process with a pool ends, its workers end with it, and nothing stays in shared memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMED = ("psm_*", "torch_*")  # what shared memory of Python and of torch is called

SCRIPT = """
import sys, time
import fedpace
from fedpace.compute import crew

task = fedpace.tasks.quadratics([1.0, 2.0, 3.0])
algorithm = fedpace.algorithms.fedavg(client_lr=0.1, steps=2)
how = sys.argv[1]

class Told(fedpace.sim.Observer):
    def recorded(self, record, x):
        if record.version == 3:
            print(*(worker.process for kept in crew._kept for worker in kept.workers), flush=True)
            if how == "raise":
                raise RuntimeError("as planned")
            if how in ("interrupt", "kill"):
                time.sleep(60)

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


@pytest.mark.parametrize("how", ["return", "raise", "interrupt", "kill"])
def test_no_process_and_no_segment_is_left(how: str) -> None:
    before = segments()
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, how],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        start_new_session=True,
    )
    assert process.stdout is not None
    workers = [int(word) for word in process.stdout.readline().split()]
    assert len(workers) == 2
    if how == "interrupt":
        os.killpg(process.pid, signal.SIGINT)  # Ctrl-C reaches the workers, too
    elif how == "kill":
        process.kill()
    _, errors = process.communicate(timeout=60)
    deadline = time.monotonic() + 20
    while any(map(is_running, workers)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(map(is_running, workers))
    assert segments() <= before
    assert errors.count("Traceback") == {"return": 0, "raise": 1, "interrupt": 1, "kill": 0}[how], errors
