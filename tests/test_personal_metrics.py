"""Clients are measured with the models they would use: personal ones, or the server's after some steps of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import fedpace
from fedpace import algorithms
from fedpace.errors import ConfigError
from fedpace.tasks import quadratics

LR = 0.25
SLOPES = (1.0, 2.0, -0.5)


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("FEDPACE_HOME", str(tmp_path / "home"))


def slope(value: float, samples: int = 4) -> tuple[Tensor, Tensor]:
    """y = value x on x = 1/samples .. 1."""
    x = torch.arange(1.0, samples + 1).reshape(-1, 1) / samples
    return x, value * x


def task() -> fedpace.tasks.OwnTask:
    """Clients whose test data have half their slope."""
    torch.manual_seed(0)
    clients = [(slope(s), slope(s / 2, samples=2)) for s in SLOPES]
    return fedpace.tasks.from_torch(nn.Linear(1, 1, bias=False), nn.MSELoss(), clients, slope(1.0))


def losses(weights: Any) -> np.ndarray:
    """Of the model y = w x on each client's test data."""
    x = slope(1.0, samples=2)[0].numpy()
    return np.array([np.mean(((w - s / 2) * x) ** 2) for w, s in zip(weights, SLOPES, strict=True)])


def test_the_servers_model_after_some_local_steps() -> None:
    """k steps of gradient descent on the client's own data: w ← w − η 2 mean(x²) (w − s)."""
    rule = algorithms.fedavg(client_lr=LR, steps=2, batch_size=None)
    plain = fedpace.simulate(rule, task(), rounds=3)
    tuned = fedpace.simulate(rule, task(), rounds=3, personalise=5)
    np.testing.assert_array_equal(tuned.model, plain.model)
    assert tuned.history == plain.history
    [w] = tuned.model
    bend = 2 * float((slope(1.0)[0] ** 2).mean())
    own = [s + (w - s) * (1 - LR * bend) ** 5 for s in SLOPES]
    np.testing.assert_allclose(tuned.client_metrics[3].values, losses(own), rtol=1e-4)
    np.testing.assert_allclose(plain.client_metrics[3].values, losses([w] * 3), rtol=1e-4)


def test_a_personal_model_is_measured_in_the_place_of_the_servers() -> None:
    """λ = 0: every personal model ends at its client's own slope."""
    rule = algorithms.ditto(lam=0.0, client_lr=LR, steps=20, batch_size=None)
    run = fedpace.simulate(rule, task(), rounds=4, client_metrics_every=2)
    assert list(run.client_metrics) == [2, 4]
    np.testing.assert_allclose(run.client_metrics[4].values, losses(SLOPES), rtol=1e-4)
    assert run.client_metrics[4].worst_tenth == run.client_metrics[4].values.max()


def test_a_client_that_never_took_part_has_the_servers_model() -> None:
    centers = np.array([[0.0], [2.0], [4.0]])
    rule = algorithms.ditto(lam=0.0, client_lr=0.5, steps=30, clients_per_round=2, select=[[0, 1]] * 2)
    run = fedpace.simulate(rule, quadratics(centers), rounds=2)
    [x] = run.model
    np.testing.assert_allclose(run.client_metrics[2].values, [0, 0, (x - 4) ** 2 / 2], atol=1e-6)


def test_feddyn_leaves_one_model_and_that_one_is_measured() -> None:
    digits = fedpace.tasks.load("digits", clients=4, model="softmax")
    rule = algorithms.feddyn(steps=2, batch_size=None)
    run = fedpace.simulate(rule, digits, rounds=2, client_metrics_every=2)
    np.testing.assert_array_equal(run.client_metrics[2].values, digits.evaluate_clients(run.model).values)


DIGITS = fedpace.tasks.load("digits", clients=6, partition="shards:2", model="mlp:16")
FEDPER = algorithms.fedper(client_lr=0.1, epochs=2)


def test_private_heads_serve_clients_of_few_classes_better_than_one_for_all(tmp_path) -> None:
    averaged = fedpace.simulate(
        algorithms.fedavg(client_lr=0.1, epochs=2), DIGITS, rounds=5, client_metrics_every=5
    )
    personal = fedpace.simulate(FEDPER, DIGITS, rounds=5)
    assert personal.client_metrics[5].mean > averaged.client_metrics[5].mean + 0.05
    assert personal.client_metrics[5].worst_tenth > averaged.client_metrics[5].worst_tenth
    personal.client_metrics[5].plot(tmp_path / "clients.png")
    assert (tmp_path / "clients.png").stat().st_size > 1000


def test_workers_and_a_resume_change_no_value(tmp_path) -> None:
    whole = fedpace.simulate(FEDPER, DIGITS, rounds=3, personalise=2).client_metrics[3].values
    pool = fedpace.simulate(FEDPER, DIGITS, rounds=3, personalise=2, workers=2, compute="pool")
    np.testing.assert_array_equal(pool.client_metrics[3].values, whole)
    plain = fedpace.simulate(FEDPER, DIGITS, rounds=3).client_metrics[3].values
    fedpace.simulate(FEDPER, DIGITS, rounds=3, checkpoint=tmp_path, stop={"virtual_seconds": 2})
    for _ in range(2):  # continued, and read back
        resumed = fedpace.simulate(FEDPER, DIGITS, rounds=3, checkpoint=tmp_path)
        np.testing.assert_array_equal(resumed.client_metrics[3].values, plain)


def test_a_saved_run_keeps_those_of_its_last_step() -> None:
    run = fedpace.simulate(FEDPER, DIGITS, rounds=2, store="kept")
    found = fedpace.runs().open("kept").load().client_metrics[2]
    np.testing.assert_array_equal(found.values, run.client_metrics[2].values)


def test_a_clients_own_model_has_statistics_of_its_own_data() -> None:
    """As if no other client was there."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.ReLU(), nn.Linear(3, 2))
    clients = [(torch.randn(8, 2) * scale, torch.arange(8) % 2) for scale in (1.0, 10.0)]
    both, alone = (
        fedpace.tasks.from_torch(module, nn.CrossEntropyLoss(), data, clients[1])
        for data in (clients, clients[1:])
    )
    x = both.initial(0)
    own = both.evaluate_client(x, 1)["loss"]
    assert own == pytest.approx(alone.evaluate(x)["loss"], rel=1e-6)
    assert own != pytest.approx(both.evaluate(x)["loss"], rel=1e-3)


def test_a_checkpoint_changes_no_personalised_metric(tmp_path) -> None:
    asked = {"rounds": 2, "personalise": 1, "client_metrics_every": 1}
    plain = fedpace.simulate(algorithms.fedavg(steps=1), task(), **asked)
    for _ in ("written", "read back"):
        kept = fedpace.simulate(algorithms.fedavg(steps=1), task(), checkpoint=tmp_path, **asked)
        assert list(kept.client_metrics) == [1, 2]
        for version, found in kept.client_metrics.items():
            assert found.values.tolist() == plain.client_metrics[version].values.tolist()


def test_what_measures_nothing_is_refused() -> None:
    rule = algorithms.fedavg(steps=1)
    for personalise in (0, 1.5, True, "3"):
        with pytest.raises(ConfigError, match="personalise must be"):
            fedpace.simulate(rule, task(), rounds=1, personalise=personalise)  # type: ignore[arg-type]
