"""a_i, the weights of local gradients: closed forms, on-line recursion and impulse response agree."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedpace.local import SGD, descend
from fedpace.local.weights import SolverShape, online_norm1, vector
from fedpace.vector import Vector


def impulse_response(local: SGD, steps: int) -> Vector:
    """a_k = -delta / lr when the gradient is 1 at step k and 0 at all others."""
    start = np.zeros(1)
    responses = [
        descend(lambda y, k, at=at: np.array([float(k == at)]), start, local, steps) for at in range(steps)
    ]
    return -np.concatenate(responses) / local.lr


@pytest.mark.parametrize(
    ("rule", "expected", "norm1"),
    [
        ({}, (1, 1, 1, 1, 1), 5),
        ({"prox_mu": 1.0}, (0.6561, 0.729, 0.81, 0.9, 1), 4.0951),
        ({"momentum": 0.9}, (4.0951, 3.439, 2.71, 1.9, 1), 13.1441),
        ({"momentum": 0.9, "nesterov": True}, (4.68559, 4.0951, 3.439, 2.71, 1.9), 16.82969),
        ({"momentum": 0.9, "prox_mu": 1.0}, (3.2805, 2.916, 2.43, 1.8, 1), 11.4265),
        ({"schedule": (1, 0.5, 0.25, 0.125, 0.125)}, (1, 0.5, 0.25, 0.125, 0.125), 2),
    ],
)
def test_the_vectors_of_the_paper(rule: dict[str, Any], expected: tuple[float, ...], norm1: float) -> None:
    """N3, K = 5 and lr = 0.1."""
    local = SGD(0.1, steps=5, **rule)
    np.testing.assert_allclose(local.a_vector(5), expected, rtol=1e-12)
    assert local.a_norm1(5) == pytest.approx(norm1, rel=1e-12)
    np.testing.assert_allclose(impulse_response(local, 5), expected, rtol=1e-12)


@pytest.mark.parametrize(("steps", "expected"), [(10, 41.381059609), (98, 890.002951267)])
def test_momentum_over_many_steps(steps: int, expected: float) -> None:
    assert SGD(0.1, steps=1, momentum=0.9).a_norm1(steps) == pytest.approx(expected, rel=1e-11)


def test_the_public_recursion_is_wrong_for_momentum_and_prox_together() -> None:
    """N3: A <- (1 - alpha)(A + c) + 1 ends at 14.379, not 11.4265."""
    c = total = 0.0
    for _ in range(5):
        c = 0.9 * c + 1
        total = 0.9 * (total + c) + 1
    assert total == pytest.approx(14.379, abs=5e-4)
    assert SGD(0.1, steps=1, momentum=0.9, prox_mu=1.0).a_norm1(5) == pytest.approx(11.4265, rel=1e-12)


_rules = st.builds(
    lambda momentum, nesterov, mu, schedule: SGD(
        0.125,
        steps=1,
        momentum=momentum,
        nesterov=nesterov and momentum > 0,
        prox_mu=mu,
        schedule=schedule,
    ),
    st.floats(0, 0.95),
    st.booleans(),
    st.floats(0, 3.9),
    st.none() | st.lists(st.floats(0.05, 2), min_size=1, max_size=4),
)


@given(local=_rules, steps=st.integers(1, 9))
def test_impulse_response_is_the_vector_for_every_solver(local: SGD, steps: int) -> None:
    a = local.a_vector(steps)
    np.testing.assert_allclose(impulse_response(local, steps), a, rtol=1e-9, atol=1e-12)
    assert local.a_norm1(steps) == pytest.approx(a.sum(), rel=1e-11)


@given(local=_rules, steps=st.integers(1, 9))
def test_a_constant_gradient_gives_the_norm(local: SGD, steps: int) -> None:
    delta = descend(lambda y, k: np.ones(1), np.zeros(1), local, steps)
    assert -delta[0] / local.lr == pytest.approx(local.a_norm1(steps), rel=1e-11)


@given(rho=st.floats(0.01, 0.97), steps=st.integers(1, 60), nesterov=st.booleans())
def test_closed_forms_of_momentum(rho: float, steps: int, nesterov: bool) -> None:
    """||a||_1 = (K - rho (1 - rho^K) / (1 - rho)) / (1 - rho), Nesterov with rho^2 for the first rho."""
    front = rho**2 if nesterov else rho
    closed = (steps - front * (1 - rho**steps) / (1 - rho)) / (1 - rho)
    assert online_norm1(SolverShape(steps, rho, nesterov)) == pytest.approx(closed, rel=1e-9)
    if not nesterov:
        square = steps - 2 * rho * (1 - rho**steps) / (1 - rho)
        square += rho**2 * (1 - rho ** (2 * steps)) / (1 - rho**2)
        a = vector(SolverShape(steps, rho))
        assert a @ a == pytest.approx(square / (1 - rho) ** 2, rel=1e-8)


@given(alpha=st.floats(0.001, 0.999), steps=st.integers(1, 60))
def test_closed_forms_of_the_proximal_pull(alpha: float, steps: int) -> None:
    shape, a = SolverShape(steps, alpha=alpha), vector(SolverShape(steps, alpha=alpha))
    assert online_norm1(shape) == pytest.approx((1 - (1 - alpha) ** steps) / alpha, rel=1e-9)
    assert a @ a == pytest.approx((1 - (1 - alpha) ** (2 * steps)) / (1 - (1 - alpha) ** 2), rel=1e-9)


@pytest.mark.parametrize("mu", [0.0, 1e-300, 1e-12])
def test_a_vanishing_pull_is_plain_sgd(mu: float) -> None:
    assert SGD(0.1, steps=1, prox_mu=mu).a_norm1(1000) == pytest.approx(1000, rel=1e-9)
    assert SGD(0.1, steps=1).a_norm1(1000) == 1000.0


def test_weight_decay_is_part_of_the_objective() -> None:
    plain, decayed = SGD(0.1, steps=1, momentum=0.9), SGD(0.1, steps=1, momentum=0.9, weight_decay=0.5)
    assert plain.a_norm1(7) == decayed.a_norm1(7)


def test_the_prox_inside_the_buffer_would_be_another_vector() -> None:
    """N3: autograd on a penalised loss gives A1 = 10.2916; ours keeps the pull outside."""
    a = []
    for at in range(5):
        displaced = buffer = 0.0
        for k in range(5):
            buffer = 0.9 * buffer + float(k == at) + 0.1 * displaced
            displaced -= buffer
        a.append(-displaced)
    assert math.fsum(a) == pytest.approx(10.2916, rel=1e-12)
    assert SGD(0.1, steps=1, momentum=0.9, prox_mu=1.0).a_norm1(5) == pytest.approx(11.4265, rel=1e-12)
