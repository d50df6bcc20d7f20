"""Compiled solves of dense networks: the reference loop's results within rounding, whatever the rule."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from fedpace.compute import Request
from fedpace.local import SGD
from fedpace.tasks.batches import batches
from fedpace.tasks.examples import Tensors
from fedpace.tasks.fast.order import planned
from fedpace.tasks.objective import CLASSIFICATION, Objective
from fedpace.tasks.torch_task import TorchTask

# Largest difference to the reference, relative to the largest entry of delta. One step rounds a few times
# per entry; a hundred steps of a network amplify that.
TOLERANCE = {torch.float32: 2e-4, torch.float64: 1e-12}

NETWORKS = {
    "softmax": [nn.Flatten(), nn.Linear(12, 5)],
    "hidden": [nn.Flatten(), nn.Linear(12, 7), nn.ReLU(), nn.Linear(7, 5)],
    "deep": [nn.Flatten(), nn.Linear(12, 6), nn.ReLU(), nn.Linear(6, 9), nn.ReLU(), nn.Linear(9, 4)],
    "nested": [nn.Sequential(nn.Flatten(), nn.Linear(12, 8)), nn.Sequential(nn.ReLU(), nn.Linear(8, 3))],
    "two classes": [nn.Flatten(), nn.Linear(12, 1), nn.ReLU(), nn.Linear(1, 2)],
}
RULES = {
    "plain": {},
    "schedule": {"schedule": (1.0, 0.5, 0.25)},
    "momentum": {"momentum": 0.9},
    "Nesterov": {"momentum": 0.9, "nesterov": True},
    "decay": {"weight_decay": 0.1},
    "proximal": {"prox_mu": 2.0},
    "clipped": {"clip": 0.1},
    "all": {"momentum": 0.5, "weight_decay": 0.1, "prox_mu": 0.3, "clip": 0.5, "schedule": (1.0, 0.1)},
}


def task_of(
    layers: list[nn.Module],
    *,
    samples: int = 23,
    dtype: torch.dtype = torch.float64,
    objective: Objective = CLASSIFICATION,
) -> TorchTask:
    draws = torch.Generator().manual_seed(7)
    network = nn.Sequential(*layers).to(dtype)
    for p in network.parameters():
        p.data = torch.randn(p.shape, generator=draws, dtype=torch.float64).to(dtype) * 0.4
    classes = [layer for layer in network.modules() if isinstance(layer, nn.Linear)][-1].out_features
    inputs = torch.randn(3, samples, 3, 4, generator=draws, dtype=torch.float64).to(dtype)
    labels = torch.randint(0, classes, (3, samples), generator=draws)
    data = [Tensors(x, y) for x, y in zip(inputs, labels, strict=True)]
    return TorchTask("made up", network, objective, [samples] * 3, data.__getitem__, data[0])


def request_of(task: TorchTask, local: SGD, correction: np.ndarray | None = None, steps: int = 20) -> Request:
    return Request(1, 4, task.initial(0), 0, local, steps, seed=3, correction=correction, data=1)


def assert_near(task: TorchTask, request: Request) -> None:
    assert task._solver is not None
    delta, expected = task.solve(request), task.reference(request)
    assert not np.array_equal(expected, np.zeros_like(expected))
    bound = TOLERANCE[task.network[-1].weight.dtype if hasattr(task.network[-1], "weight") else torch.float64]
    assert delta.dtype == expected.dtype
    np.testing.assert_allclose(delta, expected, rtol=0, atol=bound * np.abs(expected).max())


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("network", NETWORKS)
def test_a_solve_is_the_references_within_rounding(network: str, rule: str) -> None:
    task = task_of(NETWORKS[network])
    assert_near(task, request_of(task, SGD(0.1, steps=20, batch_size=5, **RULES[rule])))


@pytest.mark.parametrize("samples", [1, 4, 5, 23, 95])
@pytest.mark.parametrize("batch_size", [None, 1, 2, 5, 6, 16, 45, 1000])
def test_every_size_of_batch(samples: int, batch_size: int | None) -> None:
    """Blocks of five and of forty samples, with and without a rest, partial last batches, the full batch."""
    task = task_of(NETWORKS["hidden"], samples=samples)
    assert_near(task, request_of(task, SGD(0.1, steps=20, batch_size=batch_size)))


def test_in_single_precision() -> None:
    task = task_of(NETWORKS["hidden"], dtype=torch.float32)
    assert_near(task, request_of(task, SGD(0.1, steps=100, batch_size=5), steps=100))


def test_a_correction_is_added_to_every_gradient() -> None:
    task = task_of(NETWORKS["hidden"])
    correction = np.linspace(-1, 1, task.layout.size)
    assert_near(task, request_of(task, SGD(0.1, steps=20, batch_size=5), correction))


def test_one_step_of_the_full_batch_is_minus_the_rate_times_the_gradient() -> None:
    task = task_of(NETWORKS["softmax"])
    x = task.initial(0)
    weights, bias = (part for part in task.layout.split(x).values())
    data = task.client_data(1)
    rows, labels = data.inputs.flatten(1).numpy(), data.targets.numpy()
    scores = np.exp(rows @ weights.T + bias)
    errors = scores / scores.sum(1, keepdims=True) - np.eye(5)[labels]
    gradient = np.concatenate([(errors.T @ rows / len(rows)).ravel(), errors.mean(0)])
    delta = task.solve(request_of(task, SGD(0.5, steps=1), steps=1))
    np.testing.assert_allclose(delta, -0.5 * gradient, rtol=0, atol=1e-14)


def test_solves_leave_nothing_behind() -> None:
    """The same request gives the same bits, whatever was solved in between."""
    task = task_of(NETWORKS["hidden"], dtype=torch.float32)
    plain = request_of(task, SGD(0.1, steps=20, batch_size=5))
    first = task.solve(plain)
    for rule in RULES.values():
        task.solve(request_of(task, SGD(0.1, steps=20, batch_size=17, **rule)))
    np.testing.assert_array_equal(task.solve(plain), first)
    np.testing.assert_array_equal(plain.start, task.initial(0))


def test_a_model_that_is_not_finite_stays_so() -> None:
    task = task_of(NETWORKS["hidden"])
    broken = np.array(task.initial(0))
    broken[0] = np.nan
    request = Request(0, 1, broken, 0, SGD(0.1, steps=1, batch_size=5), 1, seed=0, data=0)
    assert np.isnan(task.solve(request)).any()


@pytest.mark.parametrize("batch_size", [None, 1, 4, 5, 9, 40])
@pytest.mark.parametrize("steps", [1, 2, 3, 7, 20])
def test_planned_batches_are_those_of_the_reference(batch_size: int | None, steps: int) -> None:
    local = SGD(0.1, steps=steps, batch_size=batch_size)
    request = Request(5, 2, np.zeros(1), 0, local, steps, seed=9, data=0)
    order, ends = planned(request, 9)
    cut = [order[low:high].tolist() for low, high in zip([0, *ends], ends, strict=False)]
    assert cut == [positions.tolist() for positions in batches(request, 9)]


FROZEN = nn.Linear(12, 5)
FROZEN.bias.requires_grad = False
HOOKED = nn.Linear(12, 5)
HOOKED.register_forward_hook(lambda module, inputs, output: output * 2)
TIED = nn.Linear(12, 12)


@pytest.mark.parametrize(
    "layers",
    [
        [nn.Flatten(), FROZEN],
        [nn.Flatten(), HOOKED],
        [nn.Flatten(), TIED, nn.ReLU(), TIED],
        [nn.Flatten(), nn.Linear(12, 7), nn.Softplus(), nn.Linear(7, 5)],
        [nn.Flatten(0), nn.Linear(12, 5)],
    ],
)
def test_other_networks_are_left_to_the_reference(layers: list[nn.Module]) -> None:
    assert task_of(layers)._solver is None


@pytest.mark.parametrize(
    "loss",
    [
        nn.CrossEntropyLoss(weight=torch.ones(5)),
        nn.CrossEntropyLoss(reduction="sum"),
        nn.functional.nll_loss,
    ],
)
def test_other_losses_are_left_to_the_reference(loss: nn.Module) -> None:
    assert task_of(NETWORKS["softmax"], objective=Objective(loss, {}))._solver is None


def test_labels_that_are_no_classes_are_left_to_the_reference() -> None:
    """-100 means "ignore" to torch; other labels out of range are its error to report."""
    task = task_of(NETWORKS["softmax"], objective=Objective(nn.CrossEntropyLoss(), {}))
    request = request_of(task, SGD(0.1, steps=5, batch_size=5), steps=5)
    usual = task.solve(request)
    task.client_data(1).targets[:] = -100
    task.client_data(1).targets[0] = 2
    assert not np.array_equal(task.solve(request), usual)
    np.testing.assert_array_equal(task.solve(request), task.reference(request))
    task.client_data(1).targets[0] = 5
    with pytest.raises(IndexError):
        task.solve(request)
