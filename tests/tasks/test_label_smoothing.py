"""Label smoothing of named tasks: trained on smoothed labels, reported on the true ones."""

from __future__ import annotations

import numpy as np
import pytest
from torch.nn import functional

import fedpace
from fedpace.compute.protocol import Request
from fedpace.local import SGD


def test_training_minimises_the_smoothed_loss_and_reports_the_plain_one() -> None:
    """(1 - s) CE + s times the mean of -log p over classes; one full-batch step is its gradient."""
    task = fedpace.tasks.load("digits", clients=2, model="softmax", label_smoothing=0.2)
    plain = fedpace.tasks.load("digits", clients=2, model="softmax")
    x = task.initial(0)
    assert task.evaluate(x) == plain.evaluate(x)
    inputs, targets = task.client_data(0).take(np.arange(task.sizes[0]))
    request = Request(0, 0, x, 0, SGD(0.5, steps=1, batch_size=None), 1, seed=0, data=0)
    delta = task.solve(request)
    task.reference(Request(0, 0, x, 0, SGD(1e-9, steps=1, batch_size=None), 1, seed=0, data=0))
    scores = task.network.train()(inputs).log_softmax(1)
    loss = 0.8 * functional.nll_loss(scores, targets) - 0.2 * scores.mean()
    gradient = task._flat.gradient(loss).numpy()
    np.testing.assert_allclose(delta, -0.5 * gradient, atol=2e-5)
    assert not np.allclose(delta, plain.solve(request), atol=1e-3)


def test_it_is_an_option_of_the_command_line_and_of_files(tmp_path, monkeypatch, capsys) -> None:
    from fedpace.cli import main

    monkeypatch.setenv("FEDPACE_HOME", str(tmp_path / "home"))
    words = ["run", "fedavg", "--clients", "3", "--model", "softmax", "--rounds", "2", "--set", "steps=2"]
    words += [
        "--label-smoothing",
        "0.1",
        "--client-test",
        "0.25",
        "--client-metrics-every",
        "1",
        "--personalise",
        "2",
        "--name",
        "a",
    ]
    file = tmp_path / "again.toml"
    assert main([*words, "--save-as", str(file)]) == 0
    assert "client accuracy" in capsys.readouterr().out
    for key in ("label_smoothing = 0.1", "client_test = 0.25", "client_metrics_every = 1", "personalise = 2"):
        assert key in file.read_text()
    assert main(["run", str(file), "--name", "b", "--quiet"]) == 0
    saved = fedpace.runs()
    one, other = saved.open("a").load(), saved.open("b").load()
    assert list(one.client_metrics) == [1, 2] and one.history == other.history
    np.testing.assert_array_equal(one.client_metrics[1].values, other.client_metrics[1].values)
    assert "client_test=0.25, label_smoothing=0.1" in saved.open("a").entry.experiment["task"]
    assert main(["runs", "show", "a"]) == 0
    assert "clients measured     after steps 1, 2" in capsys.readouterr().out
    assert main(["runs", "export", "a", "-o", str(tmp_path / "c.toml")]) == 0
    assert "personalise = 2" in (tmp_path / "c.toml").read_text()
    assert main(["resume", "a", "--rounds", "3", "--quiet"]) == 0
    assert list(fedpace.runs().open("a").load().client_metrics) == [1, 2, 3]


@pytest.mark.parametrize("value", [1.0, -0.1, "much"])
def test_what_is_no_share_is_refused(value: object) -> None:
    with pytest.raises(fedpace.errors.ConfigError, match=r"label_smoothing must be .*in \[0, 1\)"):
        fedpace.tasks.load("digits", clients=2, label_smoothing=value)  # type: ignore[arg-type]
