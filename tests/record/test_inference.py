"""A trained model can be used elsewhere: its file and its module reach the reported accuracy, exactly."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import fedpace
from fedpace.errors import ConfigError
from fedpace.record.store import artifacts


def network() -> nn.Module:
    """With statistics, a frozen layer, a buffer, and one matrix under two names."""
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 3)
    )
    net[3].weight = net[4].weight
    net[5].weight.requires_grad_(False)
    net.register_buffer("scale", torch.tensor(2.5))
    return net


def data(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    y = np.arange(30) % 3
    x = rng.normal(size=(30, 6)) + 3 * np.eye(3, 6)[y] + seed
    return torch.tensor(x, dtype=torch.float32), torch.tensor(y)


TEST = data(9)


@pytest.fixture(scope="module")
def task() -> fedpace.tasks.OwnTask:
    return fedpace.tasks.from_torch(network(), nn.CrossEntropyLoss(), [data(k) for k in range(4)], TEST)


def trained(task: fedpace.tasks.OwnTask, **options: object) -> fedpace.Run:
    algorithm = fedpace.algorithms.fedavg(client_lr=0.05, steps=3, batch_size=8)
    return fedpace.simulate(algorithm, task, rounds=3, **options)  # type: ignore[arg-type]


@torch.no_grad()
def measured(module: nn.Module) -> tuple[float, float]:
    output = module(TEST[0])
    right = (output.argmax(1) == TEST[1]).double().mean()
    return float(nn.functional.cross_entropy(output, TEST[1])), float(right)


def test_the_module_reaches_the_reported_metrics_and_is_returned_ready_to_use(task) -> None:
    run, own = trained(task), network()
    module = run.to_module(own)
    assert module is own and not any(part.training for part in module.modules())
    assert measured(module) == (run.metrics["loss"], run.metrics["accuracy"])


def test_the_dictionary_fits_strictly(task) -> None:
    run, module = trained(task), network()
    assert module.load_state_dict(run.state_dict()) == ([], [])
    assert measured(module.eval())[0] == run.metrics["loss"]
    assert float(run.state_dict()["scale"]) == 2.5
    assert torch.equal(run.state_dict()["3.weight"], run.state_dict()["4.weight"])


def test_the_saved_file_fits_strictly(task, tmp_path: Path) -> None:
    run, module = trained(task), network()
    module.load_state_dict(load_file(run.save(tmp_path) / "model.safetensors"))
    assert measured(module.eval())[0] == run.metrics["loss"]


def test_what_was_never_evaluated_gets_its_statistics_when_they_are_asked_for(task) -> None:
    evaluated, unseen = trained(task), trained(task, evaluate_every=None)
    task.evaluate(task.initial(0))  # of another model in between
    assert measured(unseen.to_module(network()))[0] == evaluated.metrics["loss"]


def test_a_run_is_pickled_without_its_task(task) -> None:
    run = trained(task, evaluate_every=None)
    again = pickle.loads(pickle.dumps(run))
    assert again.state_dict().keys() == network().state_dict().keys()
    assert all(
        torch.equal(a, b) for a, b in zip(again.state_dict().values(), run.state_dict().values(), strict=True)
    )


def test_a_stored_run_is_as_complete(task, tmp_path: Path) -> None:
    run = trained(task)
    artifacts.write(tmp_path, run)
    layout, x, others = artifacts._read_model(tmp_path / artifacts.MODEL)
    assert layout == run.layout and np.array_equal(x, run.model)
    assert others.keys() == run.other_tensors().keys()
    assert all(np.array_equal(others[name], array) for name, array in run.other_tensors().items())


def test_statistics_are_not_taken_for_those_of_a_vector_that_was_written_to(task) -> None:
    x = task.initial(0).copy()
    first = task.evaluate(x)
    x += 0.5
    assert task.evaluate(x) == task.evaluate(x.copy()) != first


def test_another_module_is_refused(task) -> None:
    with pytest.raises(
        ConfigError, match=r"module must be one with the tensors .* got '0.bias: \(4,\) in the module"
    ):
        trained(task).to_module(nn.Sequential(nn.Linear(6, 4)))
    with pytest.raises(ConfigError, match="module must be a torch.nn.Module"):
        trained(task).to_module("resnet18")  # type: ignore[arg-type]
