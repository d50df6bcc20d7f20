"""A model file carries the account of the private run that wrote it."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import fedpace
from fedpace.algorithm import Algorithm
from fedpace.errors import ConfigError
from fedpace.privacy import ClientDP
from fedpace.record.run import model_file
from fedpace.tasks import quadratics

pytest.importorskip("dp_accounting", reason="pip install 'fedpace[privacy]'")

TASK = quadratics(np.arange(16.0).reshape(8, 2))
FEDAVG = fedpace.algorithms.fedavg(client_lr=0.1, steps=1, clients_per_round=4)


def private(**rule: Any) -> Algorithm:
    return replace(FEDAVG, privacy=ClientDP(**{"delta": 1e-3, **rule}))


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """The folder of a private run of two steps."""
    return fedpace.simulate(private(), TASK, rounds=2).save(tmp_path / "first")


def rewritten(folder: Path, tensors: dict[str, Any] | None = None, **changes: Any) -> Path:
    """The model file with other tensors, or with an account that says otherwise."""
    file = folder / "model.safetensors"
    account = json.loads(model_file.metadata(file.read_bytes())["privacy"]) | changes
    save_file(load_file(file) | (tensors or {}), file, {"privacy": json.dumps(account)})
    return folder


def test_a_run_from_the_file_continues_the_account_as_one_from_the_run_does(saved: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        second = fedpace.simulate(private(), TASK, rounds=3, initial=saved)
    whole = fedpace.simulate(private(), TASK, rounds=5)
    assert second.privacy is not None and whole.privacy is not None
    assert (second.privacy.uses, second.privacy.epsilon) == (5, whole.privacy.epsilon)
    third = fedpace.simulate(private(), TASK, rounds=1, initial=second.save(saved.parent / "second"))
    assert third.privacy is not None and third.privacy.uses == 6
    budget = private(epsilon=whole.history[3].epsilon)
    assert len(fedpace.simulate(budget, TASK, rounds=9, initial=saved).history) == 2
    with pytest.raises(ConfigError, match="the same"):
        fedpace.simulate(private(noise_multiplier=3.0), TASK, rounds=1, initial=saved)


def test_the_run_store_writes_the_account_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And how many updates were clipped, step by step."""
    monkeypatch.setenv("FEDPACE_HOME", str(tmp_path))
    first = fedpace.simulate(private(clip=0.01), TASK, rounds=2, store="first")
    assert [step.clipped for step in first.history] == [4, 4]
    assert fedpace.runs().open("first").load().history == first.history
    (file,) = tmp_path.rglob("model.safetensors")
    second = fedpace.simulate(private(clip=0.01), TASK, rounds=1, initial=file)
    assert second.privacy is not None and second.privacy.uses == 3


def test_a_model_of_unknown_account_is_warned_of_in_a_private_run_only(tmp_path: Path) -> None:
    plain = fedpace.simulate(FEDAVG, TASK, rounds=2)
    save_file(plain.arrays(), tmp_path / "own.safetensors")
    assert (
        model_file.metadata(plain.save(tmp_path / "plain").joinpath("model.safetensors").read_bytes()) == {}
    )
    for initial in (plain.arrays(), tmp_path / "own.safetensors", tmp_path / "plain"):
        with pytest.warns(UserWarning, match="does not say what its model cost in privacy") as caught:
            run = fedpace.simulate(private(), TASK, rounds=1, initial=initial)
        assert len(caught) == 1 and run.privacy is not None and run.privacy.uses == 1
        fedpace.simulate(FEDAVG, TASK, rounds=1, initial=initial)


def test_every_export_of_a_private_history_says_that_it_is_the_operators(tmp_path: Path) -> None:
    run, plain = (fedpace.simulate(each, TASK, rounds=2) for each in (private(), FEDAVG))
    header, *lines = run.to_csv(tmp_path / "private.csv").read_text().splitlines()
    assert header.endswith(",epsilon,disclosure") and len(lines) == 2
    assert all(
        line.endswith(f",{step.epsilon},operator only") for line, step in zip(lines, run.history, strict=True)
    )
    assert "are the operator's" in json.loads(run.to_json())["privacy"]["covers"]
    assert "disclosure" not in plain.to_csv(tmp_path / "plain.csv").read_text()


@pytest.mark.parametrize(
    "changes",
    [
        {"uses": 1},
        {"tensors": {"x": np.zeros(2)}},
        {"uses": -1},
        {"uses": 1.5},
        {"delta": 0.0},
        {"adjacency": "zero-in"},
        {"accountant": "PLD"},
        {"cohort": 9},
        {"noise_multiplier": -1.0},
        {"more": 1},
        {"model_sha256": None},
    ],
)
def test_an_account_that_is_not_this_models_or_makes_no_sense_is_refused(
    changes: dict[str, Any], saved: Path
) -> None:
    """Also by a run without privacy: the file is not what was written."""
    rewritten(saved)
    fedpace.simulate(FEDAVG, TASK, rounds=1, initial=saved)
    rewritten(saved, **changes)
    with pytest.raises(ConfigError, match=r"initial: .*privacy account must") as raised:
        fedpace.simulate(FEDAVG, TASK, rounds=1, initial=saved)
    assert "\n" not in str(raised.value)
