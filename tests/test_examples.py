"""The examples about algorithms run as they are and print what they promise."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def printed(name: str) -> str:
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(ROOT / "examples" / name)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=900)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_combinations_that_nobody_published_learn():
    rows = dict(re.findall(r"^(.+?) {2,}(\d\.\d{3}) ", printed("combinations.py"), re.MULTILINE))
    assert len(rows) == 6
    assert all(float(rows[name]) > 0.85 for name in rows if "+" in name)


def test_timelines_show_what_pacing_does_with_the_time():
    """Less idling from FedAvg to DeFedAvg; drawing wastes work, first come first served does not."""
    found = re.findall(r"^(\S+) +([\d.]+) +(\d+)% +(\d+) +(\d+) ", printed("timeline.py"), re.MULTILINE)
    rows = {name: [float(number) for number in numbers] for name, *numbers in found}
    seconds, busy, used, wasted = zip(
        *(rows[n] for n in ("FedAvg", "DeFedAvg-nIID", "DeFedAvg-IID")), strict=True
    )
    assert seconds[0] > seconds[1] > seconds[2] and busy[0] < busy[1] < busy[2]
    assert wasted[0] == wasted[2] == 0 < wasted[1]
    assert used[0] == used[2] == 36


@pytest.mark.long
def test_normalised_averaging_ends_nearest_to_the_optimum():
    """The distances of the limits from the pooled optimum, in the order that the weights predict."""
    text = printed("unequal_work.py")
    away = {name: float(value) for name, value in re.findall(r"^(\w+) +ends (\d\.\d\d)", text, re.MULTILINE)}
    assert away["FedNova"] < away["FedProx"] < away["FedAvg"]


def test_only_lora_adapters_travel():
    for needed in ("peft", "transformers"):
        pytest.importorskip(needed)
    text = printed("lora.py")
    sent, everything = (int(n.replace(",", "")) for n in re.search(r"([\d,]+) of ([\d,]+)", text).groups())
    before, after = (float(n) for n in re.findall(r"loss (\d\.\d\d)", text))
    assert sent < everything / 5 and after < before


@pytest.mark.long
def test_a_smaller_budget_costs_accuracy_and_none_is_exceeded():
    text = printed("private.py")
    rows = {name: float(value) for name, value in re.findall(r"^(\w.+?) {2,}(0\.\d{3}) ", text, re.MULTILINE)}
    assert rows["fedavg"] > rows["fedavg, epsilon 8"] > rows["fedavg, epsilon 1"] > 0.3
    for name, spent in re.findall(r"epsilon ([\d.]+) .+\(([\d.]+), 0\.0001\)-DP", text):
        assert 0 < float(spent) <= float(name)
    assert "contributions left, of 4 each" in text and "guesses right" in text


@pytest.mark.long
def test_clients_of_few_classes_are_served_better_by_models_of_their_own():
    text = printed("personalisation.py")
    rows = {
        name: [float(number) for number in numbers]
        for name, *numbers in re.findall(
            r"^(\S.*?) {2,}(0\.\d+) +(0\.\d+) +(0\.\d+) +([\d.]+)$", text, re.MULTILINE
        )
    }
    assert len(rows) == 5
    assert all(rows[name][0] > rows["FedAvg"][0] for name in rows if name != "FedAvg")
    assert rows["FedPer"][3] == rows["FedRep"][3] < rows["FedAvg"][3] == rows["Ditto"][3]
