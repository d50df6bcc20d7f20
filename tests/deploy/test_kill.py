"""Real processes: one that is killed, or told to stop, continues where it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.deploy.deployed import TASK

from fedpace.deploy import replay
from fedpace.deploy.measures import model_sha256

ROOT = Path(__file__).parents[2]
PACINGS = ["scaffold", "fedbuff", "fedasync", "defedavg_iid", "defedavg_niid", "favano", "quafl"]


def started(folder: Path, name: str, rounds: int) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "tests.deploy.victim", str(folder), name, str(rounds)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    return subprocess.Popen(words, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True)


def journalled(folder: Path) -> int:
    return sum(path.stat().st_size for path in (folder / "server").glob("segment-*"))


@pytest.mark.long
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("name", PACINGS)
def test_a_run_that_is_ended_twice_goes_on_to_the_bits_of_its_journal(
    name: str, how: signal.Signals, tmp_path: Path
) -> None:
    rounds = 60
    for _ in range(2):
        before, victim = journalled(tmp_path), started(tmp_path, name, rounds)
        while journalled(tmp_path) < before + 4_000 and victim.poll() is None:
            time.sleep(0.005)
        victim.send_signal(how)
        out, _ = victim.communicate(timeout=300)
        if how is signal.SIGTERM:
            assert victim.returncode == 0
            assert out.split()[-1] in ("SIGTERM", "None")
    out, _ = started(tmp_path, name, rounds).communicate(timeout=300)
    steps, sha256, stopped = out.split()
    assert (int(steps), stopped) == (rounds, "None")
    again = replay(tmp_path / "server", TASK)
    assert model_sha256(again.run.model) == sha256
    assert again.different == ()
    assert again.run.counters["resynchronised"] == again.run.counters["malformed"] == 0
