"""A run that starts from another model: equal to going on, and it says where the model is from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

import fedpace
from fedpace.algorithms import fedavg
from fedpace.cli import main
from fedpace.errors import ConfigError
from fedpace.vector import model_sha256

TASK = fedpace.tasks.quadratics([[0.0, 1.0], [4.0, 3.0]], initial=10.0)
RULE = fedavg(client_lr=0.1, steps=1, batch_size=None)  # without state or chance: two halves make a whole


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("FEDPACE_HOME", str(tmp_path / "home"))


def run(rounds: int, **options: Any) -> fedpace.Run:
    return fedpace.simulate(RULE, TASK, rounds=rounds, **options)


def test_every_form_of_a_model_continues_where_it_ended(tmp_path) -> None:
    half, whole = run(3), run(6)
    half.save(tmp_path / "half")
    save_file(half.arrays(), tmp_path / "own.safetensors")
    forms = [half, half.arrays(), tmp_path / "half", str(tmp_path / "own.safetensors")]
    for form in forms:
        rest = run(3, initial=form)
        np.testing.assert_array_equal(rest.model, whole.model)
        assert rest.initial_metrics == half.metrics
        assert rest.parent["model_sha256"] == model_sha256(half.model)
    assert run(3, initial=tmp_path / "half").parent["source"] == str(tmp_path / "half")
    assert whole.parent == {}


@pytest.mark.parametrize(
    ("initial", "message"),
    [
        (3, "initial must be a Run, a state_dict or a file; got int"),
        ({"y": np.zeros(2)}, "initial must be a model with x; got"),
        ({"x": np.zeros(3)}, r"initial: x must be of shape \(2,\); got \(3,\)"),
        ({"x": np.array([1.0, np.nan])}, "initial must be a model of finite numbers"),
        ("nowhere.safetensors", "initial must be a file of safetensors"),
    ],
)
def test_a_model_of_another_task_is_refused(initial: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        run(1, initial=initial)


def test_a_pickle_is_not_opened(tmp_path) -> None:
    (tmp_path / "model.pt").write_bytes(b"\x80\x04cposix\nsystem\n.")
    with pytest.raises(ConfigError, match="a file of safetensors"):
        run(1, initial=tmp_path / "model.pt")


def test_a_saved_run_keeps_the_name_of_its_parent() -> None:
    first = run(3, store="first")
    second = run(3, store="second", initial=first)
    assert second.parent == {"run": "first", "model_sha256": model_sha256(first.model)}
    assert fedpace.runs().open("second").load().parent == second.parent
    with pytest.raises(ConfigError, match="another initial model"):
        run(3, store="second")
    with pytest.raises(ConfigError, match="one that started from its task's model"):
        fedpace.runs().open("second").resume(rounds=9)


def test_the_command_line_starts_from_saved_runs_and_files(tmp_path) -> None:
    small = ["fedavg", "--clients", "4", "--model", "softmax", "--rounds", "2", "--quiet"]
    assert main(["run", *small, "--name", "first", "--save", str(tmp_path / "first")]) == 0
    assert main(["run", *small, "--name", "by-name", "--initial", "first"]) == 0
    assert main(["run", *small, "--name", "by-file", "--initial", str(tmp_path / "first")]) == 0
    found = {name: fedpace.runs().open(name).load() for name in ("first", "by-name", "by-file")}
    np.testing.assert_array_equal(found["by-name"].model, found["by-file"].model)
    assert found["by-name"].initial_metrics == found["first"].metrics
    assert found["by-name"].parent["run"] == "first"
    assert main(["runs", "export", "by-name", "-o", str(tmp_path / "x.toml")]) == 0
    assert 'initial = "first"' in (tmp_path / "x.toml").read_text()
    assert main(["resume", "by-name", "--quiet"]) == 0
