"""The reference loop against algebra and against torch.optim.SGD."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from fedpace.local import SGD, clipped, descend
from fedpace.vector import freeze

CENTER = np.array([1.0, -2.0, 4.0])


def to_center(y: Any, k: int) -> Any:
    return y - CENTER


def test_dyadic_numbers_stay_exact() -> None:
    """lr 1/2 halves the distance each step: delta = (1 - 2^-K) (center - start)."""
    start = freeze(np.array([3.0, 2.0, 0.0]))
    delta = descend(to_center, start, SGD(0.5, steps=3), 3)
    assert delta.tolist() == ((1 - 2**-3) * (CENTER - start)).tolist()


@pytest.mark.parametrize(("momentum", "nesterov"), [(0.0, False), (0.9, False), (0.9, True)])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_torch_sgd_takes_the_same_steps(momentum: float, nesterov: bool, weight_decay: float) -> None:
    local = SGD(0.05, steps=1, momentum=momentum, nesterov=nesterov, weight_decay=weight_decay)
    delta = descend(to_center, np.ones(3), local, 12)
    weights = torch.ones(3, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD(
        [weights], lr=0.05, momentum=momentum, nesterov=nesterov, weight_decay=weight_decay
    )
    for _ in range(12):
        weights.grad = weights.detach() - torch.from_numpy(CENTER)
        optimizer.step()
    np.testing.assert_allclose(delta, weights.detach().numpy() - 1, rtol=1e-12)


def test_the_pull_is_to_the_model_received() -> None:
    """A constant gradient g and pull mu: y - x converges to -g / mu, wherever x is."""
    for start in (np.zeros(3), np.full(3, 100.0)):
        delta = descend(lambda y, k: CENTER, start, SGD(0.1, steps=1, prox_mu=2.0), 300)
        np.testing.assert_allclose(delta, -CENTER / 2.0, rtol=1e-10)


def test_no_pull_is_plain_sgd_bit_for_bit() -> None:
    start = np.random.default_rng(0).normal(size=3)
    with_zero = descend(to_center, start, SGD(0.1, steps=1, prox_mu=0.0), 9)
    assert with_zero.tolist() == descend(to_center, start, SGD(0.1, steps=1), 9).tolist()


def test_a_correction_is_added_to_every_gradient() -> None:
    """delta = -lr sum a_k (g_k + c): with g = 0 it is -lr ||a||_1 c."""
    local = SGD(0.25, steps=1, momentum=0.5, prox_mu=1.0)
    delta = descend(lambda y, k: np.zeros(3), np.zeros(3), local, 6, correction=CENTER)
    np.testing.assert_allclose(delta, -0.25 * local.a_norm1(6) * CENTER, rtol=1e-13)


def test_clipping_shortens_long_gradients_only() -> None:
    long, short = np.array([3.0, 4.0]), np.array([0.3, 0.4])
    assert clipped(long, 2.5).tolist() == [1.5, 2.0]
    assert clipped(short, 2.5) is short
    assert clipped(long, None) is long
    assert clipped(np.zeros(2), 1.0).tolist() == [0.0, 0.0]


def test_clipping_acts_before_weight_decay_and_correction() -> None:
    """lr 1, one step from y = (0, 1): -(clip(3, 4) + y / 2 + c)."""
    local = SGD(1.0, steps=1, clip=2.5, weight_decay=0.5)
    delta = descend(lambda y, k: np.array([3.0, 4.0]), np.array([0.0, 1.0]), local, 1, np.array([1.0, 1.0]))
    assert delta.tolist() == [-2.5, -3.5]


def test_the_schedule_scales_the_whole_step() -> None:
    """Rates 1/2 then 1/4 towards a center at distance 8: 4 left, then 3."""
    delta = descend(lambda y, k: y - 8.0, np.zeros(1), SGD(0.5, steps=1, schedule=(1, 0.5)), 2)
    assert delta.tolist() == [5.0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_start_is_left_alone_and_the_type_kept(dtype: Any) -> None:
    start = freeze(np.zeros(3, dtype))
    local = SGD(0.1, steps=1, momentum=0.9, nesterov=True, prox_mu=0.1, weight_decay=0.1, clip=1.0)
    delta = descend(lambda y, k: (y - CENTER).astype(dtype), start, local, 3)
    assert delta.dtype == dtype
    assert not np.shares_memory(delta, start)


def test_no_steps_move_nothing() -> None:
    assert descend(to_center, np.ones(3), SGD(0.1, steps=1), 0).tolist() == [0, 0, 0]
