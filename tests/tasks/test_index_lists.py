"""Partitions that somebody else made: lists of samples, in Python and in a JSON file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import fedpace
from fedpace.errors import ConfigError
from fedpace.tasks import load

LISTS = [[5, 0, 7], [1, 2], list(range(20, 60))]


def test_the_samples_of_a_client_are_those_with_its_numbers() -> None:
    task = load("digits", partition=LISTS, model="softmax")
    assert task.clients == 3 and task.sizes == (3, 2, 40)
    np.testing.assert_array_equal(task.parts[0], [0, 5, 7])
    same = load("digits", clients=3, partition=[np.array(part) for part in LISTS], model="softmax")
    assert repr(same) == repr(task) != repr(load("digits", partition=LISTS[:2], model="softmax"))
    assert "3 clients, 45 samples" in repr(task) and "25, 26" not in repr(task)


def test_a_file_says_the_same_on_the_command_line_and_in_experiment_files(
    tmp_path: Path, monkeypatch
) -> None:
    from fedpace.cli import main

    monkeypatch.setenv("FEDPACE_HOME", str(tmp_path / "home"))
    (tmp_path / "split.json").write_text(json.dumps({"a": LISTS[0], "b": LISTS[1], "c": LISTS[2]}))
    (tmp_path / "study.toml").write_text(
        'algorithm = "fedavg"\npartition = "split.json"\nmodel = "softmax"\nrounds = 2\nname = "two"\n'
    )
    task = load("digits", partition=LISTS, model="softmax")
    run = fedpace.simulate(fedpace.algorithms.fedavg(), task, rounds=2)
    monkeypatch.chdir(tmp_path)
    words = ["--partition", "split.json", "--model", "softmax", "--rounds", "2", "--quiet"]
    assert main(["run", "fedavg", *words, "--name", "one"]) == 0
    monkeypatch.chdir("/")
    assert main(["run", str(tmp_path / "study.toml"), "--quiet"]) == 0
    for name in ("one", "two"):
        np.testing.assert_array_equal(fedpace.runs().open(name).load().model, run.model)
    assert main(["resume", "one", "--rounds", "3", "--quiet"]) == 0
    assert main(["runs", "export", "two", "-o", str(tmp_path / "again.toml")]) == 0
    assert str(tmp_path / "split.json") in (tmp_path / "again.toml").read_text()


def test_a_file_that_was_changed_is_another_experiment(tmp_path: Path) -> None:
    from fedpace.study.rebuild import task_from

    file = tmp_path / "split.json"
    file.write_text(json.dumps(LISTS))
    text = repr(load("digits", partition=str(file), model="softmax"))
    assert repr(task_from(text)) == text
    file.write_text(json.dumps(LISTS[:2]))
    with pytest.raises(ConfigError, match="must be as it was, sha256"):
        task_from(text)


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ([[0], []], "samples of client 1 must be at least one; got 0"),
        ([[0], [1437]], r"numbers of samples in the partition must be in 0..1436; got 1437"),
        ([[-1], [0]], "must be in 0..1436; got -1"),
        ([[0, 1], [1]], r"samples of the partition must be at one client each; got \[1\]"),
        ([[0, "a"]], "partition must be a rule, text such as .*, or the numbers of samples"),
        ([[True]], "or the numbers of samples"),
        ([0, 1], "or the numbers of samples"),
        ([list(range(1000)) + [0.5]], r"got \[\[0, 1, 2, ... 1,001 numbers\]\]"),
    ],
)
def test_lists_that_make_no_sense_are_refused_and_not_printed_whole(lists, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        load("digits", partition=lists)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("text", ["{", "3", "[]", "[3]", '{"a": 1}', "[" * 100_000, '[["a"]]'])
def test_files_that_make_no_sense_are_refused_in_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "split.json").write_text(text)
    with pytest.raises(ConfigError, match=r"partition .*split.json must be ") as caught:
        load("digits", partition=str(tmp_path / "split.json"))
    assert "\n" not in str(caught.value)


def test_another_number_of_clients_is_refused() -> None:
    with pytest.raises(ConfigError, match="clients must be 3, as many as the partition has; got 4"):
        load("digits", clients=4, partition=LISTS)
    with pytest.raises(ConfigError, match="cannot be read"):
        load("digits", partition="nowhere.json")
