"""Compiled steps of dense networks of many kinds: the reference loop's results within rounding, dropout included."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from fedpace.compute import Request
from fedpace.local import SGD
from fedpace.tasks import OwnTask, from_torch
from fedpace.tasks.fast import layers
from fedpace.tasks.fast.layers import LayerSolver

# Largest difference to the reference, relative to the largest entry of delta: rounding, amplified by twenty steps.
TOLERANCE = {torch.float32: 2e-4, torch.float64: 1e-11}
SAMPLES, FEATURES, OUTPUTS = 23, 12, 3

NETWORKS: dict[str, Callable[[], list[nn.Module]]] = {
    "tanh": lambda: [nn.Linear(12, 7), nn.Tanh(), nn.Linear(7, 6), nn.Tanh(), nn.Linear(6, OUTPUTS)],
    "sigmoid": lambda: [nn.Linear(12, 7), nn.Sigmoid(), nn.Linear(7, OUTPUTS)],
    "GELU": lambda: [nn.Linear(12, 7), nn.GELU(), nn.Linear(7, OUTPUTS)],
    "approximate GELU": lambda: [nn.Linear(12, 7), nn.GELU("tanh"), nn.Linear(7, OUTPUTS)],
    "leaky ReLU": lambda: [nn.Linear(12, 7), nn.LeakyReLU(0.2), nn.Linear(7, OUTPUTS)],
    "layer norm": lambda: [nn.Linear(12, 7), nn.LayerNorm(7), nn.ReLU(), nn.Linear(7, OUTPUTS)],
    "norm first": lambda: [nn.LayerNorm(12), nn.Linear(12, 5), nn.Tanh(), nn.Linear(5, OUTPUTS)],
    "layer norm without bias": lambda: [
        nn.Linear(12, 7),
        nn.LayerNorm(7, bias=False),
        nn.Tanh(),
        nn.Linear(7, OUTPUTS),
    ],
    "layer norm without parameters": lambda: [
        nn.LayerNorm(12, elementwise_affine=False),
        nn.Linear(12, 7),
        nn.LayerNorm(7, elementwise_affine=False),
        nn.Tanh(),
        nn.Linear(7, OUTPUTS),
    ],
    "dropout": lambda: [
        nn.Dropout(0.2),
        nn.Linear(12, 7),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(7, 6),
        nn.Tanh(),
        nn.Dropout(0.3),
        nn.Linear(6, OUTPUTS),
    ],
    "no bias": lambda: [nn.Linear(12, 7, bias=False), nn.Tanh(), nn.Linear(7, OUTPUTS)],
    "ends in tanh": lambda: [nn.Linear(12, OUTPUTS), nn.Tanh()],
    "nested, flattened": lambda: [
        nn.Flatten(),
        nn.Sequential(nn.Linear(12, 8), nn.Tanh()),
        nn.Linear(8, OUTPUTS),
    ],
}
LOSSES: dict[str, tuple[Any, str]] = {
    "cross-entropy": (nn.CrossEntropyLoss(), "labels"),
    "smoothed": (nn.CrossEntropyLoss(label_smoothing=0.2), "labels"),
    "smoothed function": (partial(functional.cross_entropy, label_smoothing=0.2), "labels"),
    "mean function": (partial(functional.cross_entropy, reduction="mean"), "labels"),
    "squared": (nn.MSELoss(), "values"),
    "squared function": (functional.mse_loss, "values"),
    "logits": (nn.BCEWithLogitsLoss(), "shares"),
    "probabilities": (nn.BCELoss(), "shares"),
}
RULES: dict[str, dict[str, Any]] = {
    "plain": {},
    "momentum": {"momentum": 0.9},
    "all": {"momentum": 0.5, "weight_decay": 0.1, "prox_mu": 0.3, "clip": 0.5, "schedule": (1.0, 0.1)},
}


def targets_of(kind: str, draws: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
    if kind == "labels":
        return torch.randperm(SAMPLES, generator=draws) % OUTPUTS
    values = torch.rand(SAMPLES, OUTPUTS, generator=draws, dtype=torch.float64).to(dtype)
    return values if kind == "shares" else 4 * values - 2


def task_of(
    network: list[nn.Module], loss: str = "cross-entropy", dtype: torch.dtype = torch.float32
) -> OwnTask:
    draws = torch.Generator().manual_seed(7)
    module = nn.Sequential(*network).to(dtype)
    for p in module.parameters():
        p.data = (torch.randn(p.shape, generator=draws, dtype=torch.float64) * 0.5).to(dtype)
    shape = (3, 4) if type(network[0]) is nn.Flatten else (FEATURES,)
    inputs = torch.randn(2, SAMPLES, *shape, generator=draws, dtype=torch.float64).to(dtype)
    function, kind = LOSSES[loss]
    data = [(x, targets_of(kind, draws, dtype)) for x in inputs]
    return from_torch(module, function, data, data[0])


def request_of(task: OwnTask, steps: int = 20, batch_size: int | None = 5, **rule: Any) -> Request:
    local = SGD(0.1, steps=steps, batch_size=batch_size, **rule)
    correction = np.linspace(-0.1, 0.1, task.layout.size) if rule else None
    return Request(1, 4, task.initial(0), 0, local, steps, seed=3, correction=correction, data=1)


def assert_near(task: OwnTask, request: Request, dtype: torch.dtype = torch.float32) -> None:
    assert isinstance(task._solver, LayerSolver)
    delta, expected = task.solve(request), task.reference(request)
    assert np.abs(expected).max() > 1e-3
    assert delta.dtype == expected.dtype
    np.testing.assert_allclose(delta, expected, rtol=0, atol=TOLERANCE[dtype] * np.abs(expected).max())


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("network", NETWORKS)
def test_a_session_is_the_references_within_rounding(network: str, rule: str) -> None:
    task = task_of(NETWORKS[network]())
    assert_near(task, request_of(task, **RULES[rule]))


@pytest.mark.long  # another precision is another compilation
@pytest.mark.parametrize("network", NETWORKS)
def test_in_double_precision(network: str) -> None:
    task = task_of(NETWORKS[network](), dtype=torch.float64)
    assert_near(task, request_of(task, **RULES["all"]), torch.float64)


@pytest.mark.parametrize("batch_size", [None, 1, 5, 16])
@pytest.mark.parametrize("loss", LOSSES)
def test_losses(loss: str, batch_size: int | None) -> None:
    last = [nn.Sigmoid()] if loss == "probabilities" else []
    task = task_of([nn.Linear(12, 6), nn.Tanh(), nn.Linear(6, OUTPUTS), *last], loss)
    assert_near(task, request_of(task, batch_size=batch_size))


@pytest.mark.parametrize("scale", [1e-6, 1.0, 30.0, 1e4])
def test_saturated_units(scale: float) -> None:
    """tanh and the sigmoid are near torch's over their whole range: 0 and far beyond."""
    x = scale * np.linspace(-1, 1, 1001)
    memory = layers.memory_for([layers.Layer(0, 1001, 1001)], 1, np.dtype(np.float64))
    out = np.empty_like(x)
    both = (layers.kinds.tanh, np.tanh(x)), (layers.kinds.sigmoid, (1 + np.tanh(x / 2)) / 2)
    for function, expected in both:
        function(x, memory, out)
        np.testing.assert_allclose(out, expected, rtol=1e-14, atol=1e-15)


def test_a_nan_stays_one() -> None:
    x, memory = np.array([np.nan, 1.0]), layers.memory_for([layers.Layer(0, 2, 2)], 1, np.dtype(np.float64))
    out = np.empty_like(x)
    layers.kinds.tanh(x, memory, out)
    assert np.isnan(out[0]) and out[1] == pytest.approx(np.tanh(1.0), rel=1e-15)


def test_dropout_is_drawn_in_parts_that_cannot_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    task = task_of(NETWORKS["dropout"]())
    request = request_of(task)
    whole = task.solve(request)
    monkeypatch.setattr(layers, "MASKS_BYTES", 4 * 5 * 25 * 3)  # three batches' masks
    np.testing.assert_array_equal(task.solve(request), whole)
    np.testing.assert_array_equal(task.train_until(request, None)[0], whole)
    other = Request(1, 5, request.start, 0, request.local, 20, seed=3, data=1)
    assert not np.array_equal(task.solve(other), whole)  # another session, other draws


def test_a_session_leaves_torchs_generator_alone() -> None:
    task = task_of(NETWORKS["dropout"]())
    before = torch.get_rng_state()
    task.solve(request_of(task))
    assert torch.equal(torch.get_rng_state(), before)


def test_dropout_that_was_frozen_does_nothing() -> None:
    module = NETWORKS["dropout"]()
    for part in module:
        part.train(type(part) is not nn.Dropout)
    task = task_of(module)
    assert_near(task, request_of(task))
    assert isinstance(task._solver, LayerSolver)
    assert all(layer.kind != layers.kinds.DROPOUT for layer in task._solver.layers)


@pytest.mark.parametrize(
    "network",
    [
        [nn.Linear(12, 7), nn.Softplus(), nn.Linear(7, OUTPUTS)],
        [nn.Linear(12, 7), nn.BatchNorm1d(7), nn.Linear(7, OUTPUTS)],
        [nn.Linear(12, 7), nn.Dropout(1.0), nn.Linear(7, OUTPUTS)],
    ],
)
def test_other_networks_have_no_solver(network: list[nn.Module]) -> None:
    assert task_of(network).solving == "replayed steps"


@pytest.mark.parametrize(
    "loss",
    [
        nn.CrossEntropyLoss(weight=torch.ones(OUTPUTS)),
        nn.CrossEntropyLoss(ignore_index=2),
        nn.CrossEntropyLoss(reduction="sum"),
        lambda output, target: functional.cross_entropy(output, target),
        partial(functional.cross_entropy, weight=torch.ones(OUTPUTS)),
        partial(functional.cross_entropy, ignore_index=2),
        partial(functional.cross_entropy, reduction="sum"),
    ],
)
def test_other_losses_have_no_solver(loss: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LOSSES, "other", (loss, "labels"))
    assert task_of(NETWORKS["tanh"](), "other").solving == "replayed steps"
