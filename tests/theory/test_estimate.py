"""Constants measured on a task are those of the task."""

from __future__ import annotations

import numpy as np
import pytest

from fedpace import tasks
from fedpace.errors import ConfigError
from fedpace.theory.estimate import estimate, some_clients, squared_gradient

CENTERS = np.array([[1.0, 0.0], [3.0, 2.0], [-1.0, 4.0]])
CURVATURES = [1.0, 2.0, 5.0]
TASK = tasks.quadratics(CENTERS, CURVATURES, initial=2.0)


def test_quadratics_are_measured_exactly() -> None:
    """At the start alone: L = 5, no noise, spread and gradients by hand, the gap from the known optimum."""
    found = estimate(TASK, None, models=1)
    gradients = np.array(CURVATURES)[:, None] * (2.0 - CENTERS)
    apart = ((gradients - gradients.mean(axis=0)) ** 2).sum(axis=1)
    assert found.smoothness.value == pytest.approx(5.0, rel=1e-9)
    assert found.noise.value == 0
    assert found.spread.value == pytest.approx(apart.mean(), rel=1e-9)
    assert found.widest.value == pytest.approx(apart.max(), rel=1e-9)
    assert found.gradient.value == pytest.approx((gradients**2).sum(axis=1).max(), rel=1e-9)
    gap = TASK.training_loss(np.full(2, 2.0)) - TASK.training_loss(TASK.optimum)
    assert found.gap.value == pytest.approx(gap, rel=1e-12)
    assert found.radius.value == pytest.approx(np.sqrt(8), rel=1e-12)
    assert all(one.how and one.name for one in found.all)


def test_they_become_a_setting() -> None:
    setting = estimate(TASK, None, models=1).setting(clients=3, steps=4, per_round=2)
    assert (setting.smoothness, setting.clients, setting.steps, setting.m, setting.size) == (
        pytest.approx(5.0),
        3,
        4,
        2,
        2,
    )


def test_more_models_can_only_raise_what_is_largest() -> None:
    one, three = estimate(TASK, None, models=1), estimate(TASK, None, models=3)
    for name in ("smoothness", "spread", "widest", "gradient"):
        assert getattr(three, name).value >= getattr(one, name).value * (1 - 1e-9)


def test_noise_of_real_batches_falls_with_their_size() -> None:
    """Digits, 3 clients: the variance of a gradient of 5 samples is about four times that of 20."""
    task = tasks.load("digits", 3)
    small, large = (estimate(task, size, models=1, clients=2).noise.value for size in (5, 20))
    assert 2 < small / large < 8
    assert estimate(task, None, models=1, clients=2, batches=1).noise.value == pytest.approx(0, abs=1e-9)


def test_clients_are_drawn_when_there_are_many() -> None:
    many = tasks.quadratics(np.zeros(50))
    chosen = some_clients(many, 10, seed=0)
    assert len(set(chosen)) == 10 and chosen == sorted(chosen) != list(range(10))
    assert some_clients(TASK, 10, 0) == [0, 1, 2]


def test_squared_gradient_by_either_weighting() -> None:
    task = tasks.quadratics([1.0, 5.0], weights=[3.0, 1.0])
    x = np.zeros(1)
    assert squared_gradient(task, x, [0, 1], by_samples=False) == 9.0
    assert squared_gradient(task, x, [0, 1], by_samples=True) == 4.0


def test_bad_counts_are_named() -> None:
    with pytest.raises(ConfigError, match="models must be a whole number >= 1; got 0"):
        estimate(TASK, None, models=0)
