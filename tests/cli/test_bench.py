"""`fedpace bench`: what it is asked for, and where its answers go."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fedpace import algorithms, tasks
from fedpace.bench import tuning
from fedpace.bench.comparison import Measurement
from fedpace.cli.verbs import bench
from fedpace.compute import pins
from fedpace.compute.pins import Pin


def test_tune_pins_the_fastest(fedpace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    timed = [tuning.Timed(Pin("pool", 2), 1.0), tuning.Timed(Pin("inline", 1), 3.0)]
    monkeypatch.setattr(tuning, "timed", lambda *_: timed)
    said = fedpace("bench", "tune", "--clients", "8", "--set", "steps=3", "--workers", "2")
    assert said.code == 0, said.err
    assert "tuned.json" in said.out.replace("\n", "")
    task = tasks.load("digits", clients=8)
    assert pins.find(task, algorithms.fedavg(steps=3).local) == Pin("pool", 2)
    assert pins.find(task, algorithms.fedavg(steps=4).local) is None


def test_robust_takes_its_sizes_from_the_command_line(fedpace: Any) -> None:
    said = fedpace("bench", "robust", "--parameters", "30000", "--updates", "13", "--repeats", "1")
    assert said.code == 0, said.err
    assert "13 updates of 30,000 parameters" in said.out and "Krum(" in said.out


def test_a_table_for_people_and_all_numbers_as_json(
    fedpace: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = [
        Measurement("W1", "bare 2", 0.5, 1.0, 2_000_000),
        Measurement("W1", "fedpace 2", 0.05, 0.1, 3_000_000),
    ]
    monkeypatch.setattr("fedpace.bench.comparison.measure", lambda *_: results)
    out = tmp_path / "numbers.json"
    said = fedpace("bench", "W1", "--json", out)
    assert said.code == 0, said.err
    assert "0.0500" in said.out and "0.100" in said.out and "target for fedpace: 0.2 of bare 2" in said.out
    assert json.loads(out.read_text()) == {"W1": [result.plain() for result in results]}


def test_what_is_measured_has_a_name(fedpace: Any) -> None:
    said = fedpace("bench", "W9")
    assert said.code == 2
    assert said.err.startswith("fedpace bench: WHAT must be one of W1, W2, W3,") and "got 'W9'" in said.err
    assert all(name in bench.WORK or callable(getattr(bench, f"_{name}")) for name in bench.WHAT)
