"""docs/own-model.md is one program, and what the page says of it is so."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import fedpace

PAGE = Path(__file__).parents[2] / "docs" / "own-model.md"


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Everything the page has defined in the end."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    known: dict[str, Any] = {"__name__": "own_model"}
    folder, threads = tmp_path_factory.mktemp("page"), torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        exec(compile("\n".join(blocks), str(PAGE), "exec"), known)
        known["folder"] = folder / known["folder"]
    torch.set_num_threads(threads)
    return known


def test_it_learns(names: dict[str, Any]) -> None:
    run = names["run"]
    assert run.initial_metrics["accuracy"] < 0.5 < 0.8 < run.metrics["accuracy"]
    assert {"loss", "accuracy", "macro F1"} == set(run.metrics) == set(run.initial_metrics)


def test_the_metric_is_that_of_all_test_data(names: dict[str, Any]) -> None:
    module, (x, y) = names["module"], names["test"]
    with torch.no_grad():
        assert float(names["macro_f1"](module(x), y)) == pytest.approx(
            names["run"].metrics["macro F1"], abs=1e-6
        )


def test_the_accuracy_is_the_reported_one_exactly(names: dict[str, Any]) -> None:
    assert float(names["accuracy"]) == names["run"].metrics["accuracy"]


def test_dictionary_and_file_hold_the_same_tensors(names: dict[str, Any]) -> None:
    saved, tensors = load_file(names["folder"] / "model.safetensors"), names["tensors"]
    assert saved.keys() == tensors.keys() == names["module"].state_dict().keys()
    assert all(torch.equal(saved[name], tensors[name]) for name in tensors)


def test_the_line_about_sizes(names: dict[str, Any]) -> None:
    assert names["line"].startswith("clients hold from 16 to 160 samples and their updates count the same")
    assert names["by_samples"] == fedpace.algorithms.fedgm(
        client_lr=0.2, steps=10, batch_size=16, server_lr=1.5, beta=0.5, nu=0.5, weighting="samples"
    )


def test_the_cost_of_the_model_and_the_seconds_that_follow(names: dict[str, Any]) -> None:
    assert names["cost"] == 16 * 4 * 12 * (1 + 12) + 12 * 3
    steps = names["devices"].for_model(lambda: names["cost"]).bind(8, 0).step_s
    assert np.allclose(steps, names["devices"].bind(8, 0).step_s * names["cost"] / 4_267_008, rtol=1e-12)
