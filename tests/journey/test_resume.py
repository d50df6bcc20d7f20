"""Killed at any moment, a run ends with the same bits as one that was never interrupted."""

from __future__ import annotations

import itertools
import json
import math
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from fedpace import algorithms
from results import unnamed

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src"
RECORD = HERE / "kills.json"  # what the long test saw when it killed most often


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


@pytest.mark.parametrize("workers", [1, 2])
def test_killed_at_each_of_the_chosen_moments(workers: int) -> None:
    seen = killed("moments", "fedbuff", workers, 1, time.time_ns())
    moments = ("first second", "checkpoint write", "final save", "resume")
    assert seen == {"case": "fedbuff", "workers": workers, "kills": dict.fromkeys(moments, 1), "different": 0}


@pytest.mark.long
def test_killed_a_thousand_times() -> None:
    """Every named algorithm, inline and in the pool, as often at each of the four moments.

    FEDPACE_KILLS: how many. FEDPACE_KILLS_LOG: a file that gets a line for every pair that is done; if the test
    is interrupted and started again with the same file, it does those that are left.
    """
    wanted = int(os.environ.get("FEDPACE_KILLS", "1000"))
    pairs = list(itertools.product(algorithms.__all__, (1, 2)))
    each = math.ceil(wanted / (4 * len(pairs)))
    done = KillLog(os.environ.get("FEDPACE_KILLS_LOG"), each)
    with ThreadPoolExecutor(os.cpu_count()) as several:
        seen = list(
            several.map(lambda pair: done.get(pair) or done.add(killed("moments", *pair, each, 1)), pairs)
        )
    total = sum(sum(one["kills"].values()) for one in seen)
    different = sum(one["different"] for one in seen)
    rows = ",\n".join(f"  {json.dumps(one)}" for one in seen)
    if total >= json.loads(RECORD.read_text())["kills"]:
        RECORD.write_text(f'{{"kills": {total}, "different": {different}, "of each": [\n{rows}\n]}}\n')
    assert total >= wanted
    assert different == 0


class KillLog:
    """Pairs of algorithm and number of workers that were killed `each` times at each moment."""

    def __init__(self, file: str | None, each: int) -> None:
        self.file = None if file is None else Path(file)
        lines = self.file.read_text().splitlines() if self.file is not None and self.file.exists() else []
        rows = [json.loads(line) for line in lines]
        self.rows = {
            (row["case"], row["workers"]): row for row in rows if set(row["kills"].values()) == {each}
        }

    def get(self, pair: tuple[str, int]) -> dict[str, Any] | None:
        return self.rows.get(pair)

    def add(self, row: dict[str, Any]) -> dict[str, Any]:
        if self.file is not None:
            with self.file.open("a") as log:
                log.write(f"{json.dumps(row)}\n")
        return row


# ------------------------------------------------------------ the same from the command line

RUN = (
    "run ca2fl --task digits --clients 12 --partition dirichlet:0.5 --population half-normal:3 --rounds 40 "
    "--set epochs=1 --set buffer=3 --set concurrency=6 --set beta=0.5 --set nu=0.5 --quiet"
)

# Killed from outside, a run may be over before whoever waits for its second checkpoint gets his turn.
DYING = """
import os, signal, sys
from fedpace.cli import main
from fedpace.record.store.checkpointer import Checkpointer

save, saved = Checkpointer.save, []

def dying(self, *run):
    save(self, *run)
    saved.append(run)
    if len(saved) == 2:
        os.kill(os.getpid(), signal.SIGKILL)

Checkpointer.save = dying
sys.exit(main())
"""


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
    words = [*RUN.split(), "--name", "night", "--checkpoint-every", "1"]
    assert subprocess.run([sys.executable, "-c", DYING, *words], env=env).returncode == -signal.SIGKILL
    assert (tmp_path / "runs" / "night" / "checkpoint.previous.safetensors").exists()
    subprocess.run(fedpace("resume", "night", "--quiet", "--json", resumed), env=env, check=True)
    assert unnamed(resumed) == unnamed(whole)
    again = tmp_path / "again.json"
    subprocess.run(fedpace("resume", "night", "--quiet", "--json", again), env=env, check=True)
    assert unnamed(again) == unnamed(whole)
