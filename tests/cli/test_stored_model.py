"""What the store keeps of a run beside its history: the initial model's metrics, a whole model, times apart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from fedpace import algorithms, simulate, tasks
from fedpace.cli import show
from fedpace.record.store import artifacts
from fedpace.record.store.store import Store

OPTIONS = ("--task", "digits", "--clients", 4, "--rounds", 2, "--set", "steps=1", "--workers", 1)


def test_initial_metrics_statistics_and_times(fedpace: Any, tmp_path: Any) -> None:
    words = ("run", "fedavg", *OPTIONS, "--model", "resnet20", "--evaluate-every", 2, "--set", "batch_size=4")
    assert fedpace(*words, "--name", "kept", "--save", tmp_path / "saved", "--quiet").code == 0
    store = Store()
    run = artifacts.load(store, store["kept"])
    task = tasks.load("digits", clients=4, model="resnet20")
    assert run.initial_metrics == task.evaluate(task.initial(0))
    assert run.summary["warm_up_seconds"] > 0 and "initial_metrics" not in run.summary
    module = run.to_module(task._network(1))
    inputs, targets = task.test.take(torch.arange(len(task.test)).numpy())
    with torch.no_grad():
        right = float((module(inputs).argmax(1) == targets).double().mean())
    assert right == run.metrics["accuracy"]


def test_the_table_says_where_a_value_comes_from(fedpace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    shown = fedpace("run", "fedavg", *OPTIONS, "--population", "defedavg", "--no-store")
    assert "0.000555 times that of DeFedAvg's CNN (2,368 of 4,267,008 multiply-accumulates)" in shown.out


def test_a_value_of_an_earlier_evaluation_is_marked(capsys: Any) -> None:
    task = tasks.quadratics([4, 8, 16])
    run = simulate(algorithms.fedavg(client_lr=0.5, steps=1), task, rounds=3, evaluate_every=1)
    late = replace(run, history=[*run.history[:2], replace(run.history[2], metrics={})])
    show.result(late)
    assert "loss (at step 2)" in capsys.readouterr().out
    show.result(run)
    assert "at step" not in capsys.readouterr().out
