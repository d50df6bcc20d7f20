"""A module of one's own on a named data set, in Python and as `module:function`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from torch import nn

import fedpace
from fedpace.errors import ConfigError
from fedpace.tasks import load

RULE = fedpace.algorithms.fedavg(steps=2)

PLUG_IN = """
from torch import nn

def net(shape, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(shape[-1] * shape[-2], classes))
"""


def like_softmax(shape: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(shape[-1] * shape[-2], classes))


class Dropped(nn.Module):
    """Made without arguments, and draws random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(64, 10))

    def forward(self, x):  # type: ignore[no-untyped-def]
        return self.layers(x)


def test_a_function_makes_the_network_from_the_seed_as_the_named_ones_are_made() -> None:
    own, named = load("digits", clients=3, model=like_softmax), load("digits", clients=3, model="softmax")
    for seed in (0, 1):
        np.testing.assert_array_equal(own.initial(seed), named.initial(seed))
    runs = [fedpace.simulate(RULE, task, rounds=2, seed=1) for task in (own, named)]
    np.testing.assert_array_equal(runs[0].model, runs[1].model)


def test_a_module_starts_at_its_present_parameters_and_is_not_touched() -> None:
    module = Dropped()
    before = module.layers[2].weight.detach().clone()
    task = load("digits", clients=3, model=module)
    np.testing.assert_array_equal(task.initial(0)[:640], before.numpy().reshape(-1))
    np.testing.assert_array_equal(task.initial(0), task.initial(5))
    run = fedpace.simulate(RULE, task, rounds=1)
    again = fedpace.simulate(
        RULE, load("digits", clients=3, model=module), rounds=1, compute="pool", workers=2
    )
    np.testing.assert_array_equal(run.model, again.model)  # random numbers are decided by the request
    assert (module.layers[2].weight == before).all()
    assert repr(task) != repr(load("digits", clients=3, model=Dropped()))


def test_on_the_command_line_it_is_a_plug_in(tmp_path: Path, monkeypatch, capsys) -> None:
    from fedpace.cli import main

    monkeypatch.setenv("FEDPACE_HOME", str(tmp_path / "home"))
    (tmp_path / "my_networks.py").write_text(PLUG_IN)
    (tmp_path / "study.toml").write_text(
        'algorithm = "fedavg"\nmodel = "my_networks:net"\nclients = 3\nrounds = 2\nname = "own"\n'
        "[parameters]\nsteps = 2\n"
    )
    assert main(["run", str(tmp_path / "study.toml"), "--quiet"]) == 0
    named = fedpace.simulate(RULE, load("digits", clients=3, model="softmax"), rounds=2)
    np.testing.assert_array_equal(fedpace.runs().open("own").load().model, named.model)
    modules = ["--modules", str(tmp_path), "--quiet"]
    assert main(["resume", "own", "--rounds", "3", *modules]) == 0
    assert main(["run", "fedavg", "--model", "my_networks:absent", *modules]) == 2
    assert "my_networks must define absent" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (nn.Linear(3, 10), "model does not take samples of shape"),
        (
            nn.Flatten(),
            r"output of the model must be one score per class, \(1, 10\) for one sample; got \(1, 64\)",
        ),
        (lambda: 3, "model must be a torch.nn.Module, or a function that makes one; got 3"),
        (7, "model must be a name such as 'mlp', a torch.nn.Module, or None; got 7"),
        ("json:loads", "model must be one of"),
    ],
)
def test_what_does_not_fit_is_refused(model, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load("digits", clients=3, model=model)
