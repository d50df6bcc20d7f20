"""Killed at any moment, a run ends with the same bits as one that was never interrupted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src"
RECORD = HERE / "kills.json"  # what the long test last saw

ALL = (
    "synchronous",
    "momentum",
    "stages",
    "corrected",
    "buffered",
    "cached",
    "packed cache",
    "polled",
    "arrivals",
    "immediate",
    "interrupting",
    "averaging",
    "replayed",
    "compressed",
    "lazy",
    "two way",
)


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}


def killed(*words: object) -> dict[str, Any]:
    command = [sys.executable, str(HERE / "victim.py"), *map(str, words)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


@pytest.mark.parametrize(
    ("case", "workers"),
    [("momentum", 1), ("cached", 2), ("polled", 1), ("compressed", 2), ("interrupting", 1)],
)
def test_killed_at_random_moments(case: str, workers: int) -> None:
    seen = killed("random", case, workers, 2, time.time_ns())
    assert seen["kills"] >= 2
    assert seen["different"] == 0


def test_killed_before_each_call_that_touches_the_disk() -> None:
    """Three checkpoints: the journal, the links and renames that keep the last two, and what follows them."""
    seen = killed("calls", "packed cache", 24)
    assert seen == {"case": "packed cache", "kills": 24, "different": 0}


@pytest.mark.long
def test_killed_two_hundred_times() -> None:
    seen = [killed("random", case, workers, 7, 1) for case in ALL for workers in (1, 2)]
    total = sum(each["kills"] for each in seen)
    RECORD.write_text(json.dumps({"kills": total, "of each": seen}, indent=1) + "\n")
    assert total >= 200
    assert [each for each in seen if each["different"]] == []


# ------------------------------------------------------------ the same from the command line

RUN = (
    "run ca2fl --task digits --clients 12 --partition dirichlet:0.5 --population half-normal:3 --rounds 40 "
    "--set epochs=1 --set buffer=3 --set concurrency=6 --set beta=0.5 --set nu=0.5 --quiet"
)


def fedpace(*words: object) -> list[str]:
    return [
        sys.executable,
        "-c",
        "import sys; from fedpace.cli import main; sys.exit(main())",
        *map(str, words),
    ]


def test_fedpace_resume_after_kill_9_writes_the_same_file(tmp_path: Path) -> None:
    env = environment() | {"FEDPACE_HOME": str(tmp_path)}
    whole, resumed = tmp_path / "whole.json", tmp_path / "resumed.json"
    subprocess.run(fedpace(*RUN.split(), "--no-store", "--json", whole), env=env, check=True)
    process = subprocess.Popen(fedpace(*RUN.split(), "--name", "night", "--checkpoint-every", 1), env=env)
    wait_for(tmp_path / "runs" / "night" / "checkpoint.previous.safetensors", process)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "the run was over before it could be killed"
    subprocess.run(fedpace("resume", "night", "--quiet", "--json", resumed), env=env, check=True)
    assert resumed.read_bytes() == whole.read_bytes()
    again = tmp_path / "again.json"
    subprocess.run(fedpace("resume", "night", "--quiet", "--json", again), env=env, check=True)
    assert again.read_bytes() == whole.read_bytes()


def wait_for(file: Path, process: subprocess.Popen[bytes]) -> None:
    while not file.exists():
        assert process.poll() is None, "the run ended before it wrote its second checkpoint"
        time.sleep(0.005)
