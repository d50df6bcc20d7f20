"""Convolutional networks without autograd: the reference loop's results within rounding."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from fedpace.compute import Request
from fedpace.local import SGD
from fedpace.tasks.examples import Tensors
from fedpace.tasks.fast import convolution, images
from fedpace.tasks.networks.cnn import cnn, cnn_ca2fl
from fedpace.tasks.objective import CLASSIFICATION
from fedpace.tasks.torch_task import TorchTask

Layers = list[nn.Module]

# In units of the model's own rounding, eps * max |y|: delta = y_end - y_start cannot be nearer than one.
ROUNDINGS = 500


def pooled_first() -> Layers:
    return [nn.Conv2d(2, 3, 3), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(3 * 3 * 4, 5)]


def padded() -> Layers:
    first = [nn.Conv2d(2, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    second = [nn.Conv2d(3, 4, 3, padding=2), nn.ReLU(), nn.MaxPool2d(2)]
    return [*first, *second, nn.Flatten(), nn.Linear(4 * 2 * 2, 7), nn.ReLU(), nn.Linear(7, 5)]


def strided() -> Layers:
    """Without pooling, and with rows and columns that no patch reaches."""
    first = [nn.Conv2d(2, 3, 2, stride=2, padding=1), nn.ReLU()]
    second = [nn.Conv2d(3, 4, 3, stride=2), nn.ReLU()]
    return [*first, *second, nn.Flatten(), nn.Linear(4 * 2 * 2, 5)]


def in_threes() -> Layers:
    """Squares of three leave a rest of the image that has no part in anything."""
    return [nn.Conv2d(2, 3, 1), nn.MaxPool2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(3 * 2 * 3, 5)]


def with_a_rest() -> Layers:
    first = [nn.Conv2d(2, 3, 2), nn.MaxPool2d(2), nn.ReLU()]
    return [*first, nn.Conv2d(3, 3, 2), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(3, 5)]


NETWORKS = {make.__name__: make for make in (pooled_first, padded, strided, in_threes, with_a_rest)}
SHAPES = {"in_threes": (2, 8, 10), "with_a_rest": (2, 7, 7), "strided": (2, 9, 9)}
RULES = {
    "plain": {},
    "momentum": {"momentum": 0.9, "nesterov": True},
    "proximal": {"prox_mu": 0.5, "weight_decay": 0.1},
    "clipped": {"clip": 0.2, "schedule": (1.0, 0.5)},
}


def task_of(
    network: nn.Module, shape: tuple[int, ...], dtype: torch.dtype = torch.float64, level: int = 2
) -> TorchTask:
    """Pixels are multiples of 1/level: few values, so that squares with two equal largest ones abound."""
    draws = torch.Generator().manual_seed(5)
    for p in network.parameters():
        p.data = torch.randn(p.shape, generator=draws, dtype=torch.float64) * 0.3
    network.to(dtype)
    pixels = torch.randint(-level, level + 1, (17, *shape), generator=draws).to(dtype) / level
    data = Tensors(pixels, torch.randint(0, 5, (17,), generator=draws))
    return TorchTask("made up", network, CLASSIFICATION, [17], lambda client: data, data)


def assert_near(task: TorchTask, local: SGD, steps: int, correction: np.ndarray | None = None) -> None:
    assert isinstance(task._solver, images.ImageSolver)
    start = task.initial(0)
    request = Request(0, 1, start, 0, local, steps, seed=2, correction=correction, data=0)
    delta, expected = task.solve(request), task.reference(request)
    unit = np.finfo(start.dtype).eps * np.abs(start + expected).max()
    assert np.abs(expected).max() > 1e4 * ROUNDINGS * unit or start.dtype == np.float32
    np.testing.assert_allclose(delta, expected, rtol=0, atol=ROUNDINGS * unit)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", NETWORKS)
def test_a_solve_is_the_references_within_rounding(name: str, rule: str) -> None:
    task = task_of(
        nn.Sequential(*NETWORKS[name]()), SHAPES.get(name, (2, 8, 10) if name != "padded" else (2, 6, 6))
    )
    assert_near(task, SGD(0.1, steps=7, batch_size=5, **RULES[rule]), 7)


@pytest.mark.parametrize("batch_size", [None, 1, 4, 16])
@pytest.mark.parametrize("rule", ["plain", "momentum"])
def test_however_the_batch_is_cut(batch_size: int | None, rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Patches of three images at a time, and four images through the network at a time."""
    monkeypatch.setattr(convolution, "PATCHES_BYTES", 3 * 64 * 27 * 8)
    monkeypatch.setattr(images, "MEMORY_BYTES", 4 * 64 * 4 * 8)
    task = task_of(nn.Sequential(*padded()), (2, 6, 6))
    assert_near(task, SGD(0.1, steps=4, batch_size=batch_size, **RULES[rule]), 4)


def test_a_correction_is_added_to_every_gradient() -> None:
    task = task_of(nn.Sequential(*padded()), (2, 6, 6))
    correction = np.linspace(-1, 1, task.layout.size)
    assert_near(task, SGD(0.1, steps=4, batch_size=5), 4, correction)


@pytest.mark.parametrize(("make", "shape"), [(cnn, (1, 28, 28)), (cnn_ca2fl, (3, 32, 32))])
def test_the_papers_networks_in_single_precision(make: type, shape: tuple[int, ...]) -> None:
    task = task_of(make(shape, 10), shape, torch.float32, level=1000)
    for p in task.network.parameters():
        p.data /= 10
    assert_near(task, SGD(0.001, steps=2, batch_size=10), 2)


def test_solves_leave_nothing_behind() -> None:
    task = task_of(nn.Sequential(*padded()), (2, 6, 6), torch.float32)
    plain = Request(0, 1, task.initial(0), 0, SGD(0.1, steps=4, batch_size=5), 4, seed=2, data=0)
    first = task.solve(plain)
    for rule in RULES.values():
        local = SGD(0.1, steps=3, batch_size=3, **rule)
        task.solve(Request(0, 2, task.initial(0), 0, local, 3, seed=2, data=0))
    np.testing.assert_array_equal(task.solve(plain), first)
    np.testing.assert_array_equal(plain.start, task.initial(0))


@pytest.mark.parametrize("count", [1, 7, 20, 47])
def test_outputs_for_an_evaluation_are_the_networks(count: int) -> None:
    task = task_of(nn.Sequential(*padded()), (2, 6, 6))
    x = task.initial(0) * 1.5
    pixels = torch.randn(count, 2, 6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    outputs = task._show(x)(pixels)
    task._flat.reset(x)
    with torch.no_grad():
        np.testing.assert_allclose(outputs, task.network(pixels), rtol=0, atol=1e-13)


@pytest.mark.parametrize(
    "layers",
    [
        [nn.Conv2d(2, 3, 3), nn.Flatten(), nn.Linear(3 * 6 * 8, 5)],
        [nn.Conv2d(2, 3, 3), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(3 * 3 * 4, 5)],
        [nn.Conv2d(2, 3, 3), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(3 * 3 * 4, 5)],
        [nn.Conv2d(2, 3, 3), nn.ReLU(), nn.MaxPool2d(2, stride=1), nn.Flatten(), nn.Linear(3 * 5 * 7, 5)],
        [
            nn.Conv2d(2, 3, 3),
            nn.ReLU(),
            nn.MaxPool2d(3, ceil_mode=True),
            nn.Flatten(),
            nn.Linear(3 * 2 * 3, 5),
        ],
        [nn.Conv2d(2, 3, (3, 1)), nn.ReLU(), nn.Flatten(), nn.Linear(3 * 6 * 10, 5)],
        [nn.Conv2d(2, 2, 3, groups=2), nn.ReLU(), nn.Flatten(), nn.Linear(2 * 6 * 8, 5)],
        [
            nn.Conv2d(2, 3, 3, padding=1, padding_mode="circular"),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(3 * 8 * 10, 5),
        ],
        [nn.Conv2d(2, 3, 3, padding="same"), nn.ReLU(), nn.Flatten(), nn.Linear(3 * 8 * 10, 5)],
        [nn.Conv2d(2, 3, 3, bias=False), nn.ReLU(), nn.Flatten(), nn.Linear(3 * 6 * 8, 5)],
        [nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(3 * 6 * 8, 5)],
    ],
)
def test_other_networks_are_left_to_the_reference(layers: Layers) -> None:
    task = task_of(nn.Sequential(*layers), (2, 8, 10))
    assert task._solver is None
    request = Request(0, 1, task.initial(0), 0, SGD(0.1, steps=1, batch_size=5), 1, seed=0, data=0)
    np.testing.assert_array_equal(task.solve(request), task.reference(request))
