"""The examples run as they are and print what they promise."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"

pytestmark = pytest.mark.skipif(
    not EXAMPLES.is_dir(), reason="the examples are not installed with the package"
)


def printed(name):
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, EXAMPLES / name], env=env, capture_output=True, text=True, timeout=600
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def accuracies(text):
    return [
        (int(step), float(value)) for step, value in re.findall(r"step +(\d+)   accuracy (\d\.\d\d)", text)
    ]


def test_own_model():
    """Two classes per client, and yet the model learns them all."""
    text = printed("own_model.py")
    assert text.startswith("20 clients, 8,746 parameters\n")
    steps = accuracies(text)
    assert [step for step, _ in steps] == [15, 30, 45]
    assert steps[-1][1] >= 0.9
    spread = re.search(r"over clients: quartiles (\S+) (\S+) (\S+), worst tenth (\S+)\n$", text)
    low, median, high, worst = map(float, spread.groups())
    assert worst <= low <= median <= high <= 1


@pytest.mark.long
def test_adapter_finetuning():
    """3 % of the parameters travel, and the new task is learned from a quarter right by chance."""
    text = printed("adapter_finetuning.py")
    before = {
        name: float(value) for name, value in re.findall(r"^(\w+) grouping.*accuracy (\S+)$", text, re.M)
    }
    assert before["old"] >= 0.9 and before["new"] <= 0.4
    assert "communicated: 1,844 of 59,924 parameters\n" in text
    steps = accuracies(text)
    assert [step for step, _ in steps] == [20, 40, 60]
    assert steps[-1][1] >= 0.85
