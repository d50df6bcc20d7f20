"""How large a server step may be, with and without delay."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import fedpace
from fedpace import algorithms, tasks
from fedpace.errors import ConfigError
from fedpace.server_opt import Momentum
from fedpace.theory import mean_square_limit, stability_limit
from fedpace.theory.stability import contraction, probabilities, recursion, spectral_radius


@pytest.mark.parametrize(
    ("beta", "nu", "limit"),
    [
        (0.9, 0.0, 2),
        (0.7, 0.7, 4.722222),
        (0.9, 0.7, 5.9375),
        (0.9, 0.9, 13.571429),
        (0.95, 0.95, 26.896552),
        (0.9, 1.0, 38),
    ],
)
def test_stability_limit_is_where_the_rule_begins_to_grow(beta: float, nu: float, limit: float) -> None:
    """G7: the linear map of one step of the rule itself, on updates -c x."""
    assert stability_limit(beta, nu) == pytest.approx(limit, abs=5e-7)
    for share, stable in ((0.999, True), (1.001, False)):
        assert (radius_of_the_rule(stability_limit(beta, nu) * share, beta, nu) < 1) == stable


def radius_of_the_rule(eta_c: float, beta: float, nu: float) -> float:
    """Of the map (x, b) -> (x, b), read off the rule column by column; c = 1 scales b only."""
    rule, columns = Momentum(eta_c, beta, nu), []
    for x, b in ((1.0, 0.0), (0.0, 1.0)):
        start = rule.init(np.zeros(1))
        buffer = np.array([b])
        state = start if start.b is None else type(start)(buffer)
        after, state = rule.apply(np.array([x]), np.array([-x]), state)
        columns.append([float(after[0]), 0.0 if state.b is None else float(state.b[0])])
    return float(np.abs(np.linalg.eigvals(np.array(columns).T)).max())


# ------------------------------------------------------------------------------------------ delays


@pytest.mark.parametrize(
    ("beta", "nu", "five", "ten"),
    [(0.0, 0.0, 0.955, 0.489), (0.9, 0.0, 0.955, 0.489), (0.7, 0.7, 0.835, 0.383), (0.95, 0.7, 2.31, 0.81)],
)
def test_limits_with_uniform_delays(beta: float, nu: float, five: float, ten: float) -> None:
    """R = 5 and 10, the paper's autonomous experiments."""
    assert stability_limit(beta, nu, 5) == pytest.approx(five, abs=5e-3)
    assert stability_limit(beta, nu, delays=10) == pytest.approx(ten, abs=5e-3)


@pytest.mark.parametrize(("beta", "nu"), [(0.0, 0.0), (0.7, 0.7), (0.95, 0.7), (0.9, 1.0), (0.5, 0.3)])
@pytest.mark.parametrize("delays", [1, 2, 7, [0.1, 0.2, 0.7], [0.0, 0.0, 1.0]], ids=str)
def test_it_is_the_first_step_with_a_root_on_the_unit_circle(beta: float, nu: float, delays: Any) -> None:
    """Below it every step is stable, just above it is not."""
    limit = stability_limit(beta, nu, delays)
    assert spectral_radius(limit * 1.0001, beta, nu, delays) > 1
    assert all(spectral_radius(limit * s, beta, nu, delays) < 1 for s in np.linspace(0.02, 0.9999, 40))


@pytest.mark.parametrize("age", [1, 2, 3, 8])
def test_one_fixed_delay_in_closed_form(age: int) -> None:
    """x' = x - s x_{t-j} is stable iff s < 2 sin(pi / (2 (2j + 1)))."""
    limit = stability_limit(0.0, 0.0, [0.0] * age + [1.0])
    assert limit == pytest.approx(2 * math.sin(math.pi / (2 * (2 * age + 1))), rel=1e-9)


def test_no_delay_is_the_formula_to_the_bit() -> None:
    assert stability_limit(0.9, 0.7, 1) == stability_limit(0.9, 0.7) == stability_limit(0.9, 0.7, [1.0, 0.0])
    assert stability_limit(0.9, 0.7) == 2 * 1.9 / (1.9 - 2 * 0.7 * 0.9)


def test_the_recursion_is_the_rule_with_delayed_updates() -> None:
    """The matrix steps like Momentum fed with the mean of the last three models."""
    beta, nu, chances = 0.8, 0.6, np.array([0.5, 0.3, 0.2])
    a, _ = recursion(0.4, beta, nu, chances)
    rule, models, state = Momentum(0.4, beta, nu), [np.ones(1)] * 3, np.array([1.0, 1.0, 1.0, 0.0])
    memory = rule.init(models[0])
    for _ in range(20):
        seen = sum(p * x for p, x in zip(chances, models, strict=True))
        x, memory = rule.apply(models[0], -np.asarray(seen), memory)
        models, state = [x, *models[:2]], a @ state
    assert state[0] == pytest.approx(float(models[0][0]), rel=1e-12)


@pytest.mark.parametrize(("share", "stable"), [(0.75, True), (1.15, False)])
def test_autonomous_runs_end_where_it_says(share: float, stable: bool) -> None:
    """Many clients per step, so that the mean decides: FedAvg with R = 10 on one quadratic, c = 1/2."""
    task = tasks.quadratics(np.zeros(40), initial=1.0)
    rate = share * stability_limit(0.0, 0.0, 10) / 0.5
    algorithm = algorithms.autonomous_fedgm(
        client_lr=0.5, steps=1, batch_size=None, history=10, server_lr=rate, beta=0.0, nu=0.0
    )
    run = fedpace.simulate(algorithm, task, rounds=120, evaluate_every=None, traces=False)
    assert (abs(float(run.model[0])) < 0.5) == stable


def kronecker_radius(step: float, beta: float, nu: float, chances: Any, members: int) -> float:
    """Of E[A (x) A] over all delays of one member; with more, the mean plus 1/M of the scatter."""
    mean, push = recursion(step, beta, nu, chances)
    scatter = np.zeros((mean.size, mean.size))
    for lag, chance in enumerate(chances):
        own = mean + np.outer(push, np.eye(len(chances) + 1)[lag] - np.append(chances, 0.0))
        scatter += chance * np.kron(own - mean, own - mean)
    return float(np.abs(np.linalg.eigvals(np.kron(mean, mean) + scatter / members)).max())


@pytest.mark.parametrize(("beta", "nu"), [(0.0, 0.0), (0.7, 0.7), (0.95, 0.7)])
@pytest.mark.parametrize("members", [1, 4])
def test_few_updates_per_step_are_stricter(beta: float, nu: float, members: int) -> None:
    """The mean-square limit is where the second moments begin to grow, below the mean's."""
    chances = probabilities(5)
    limit = mean_square_limit(beta, nu, 5, members)
    assert limit < stability_limit(beta, nu, 5)
    assert kronecker_radius(limit * 0.999, beta, nu, chances, members) < 1
    assert kronecker_radius(limit * 1.001, beta, nu, chances, members) > 1


def test_many_updates_per_step_are_their_mean() -> None:
    assert mean_square_limit(0.7, 0.7, 5, 10**6) == pytest.approx(stability_limit(0.7, 0.7, 5), rel=1e-3)
    assert mean_square_limit(0.7, 0.7) == stability_limit(0.7, 0.7)


def test_a_cache_and_a_noisy_downlink_are_stricter() -> None:
    plain = mean_square_limit(0.0, 0.0, 3, 2)
    assert mean_square_limit(0.0, 0.0, 3, 2, cache=10) < plain
    assert mean_square_limit(0.0, 0.0, 3, 2, excess=7.0) < plain
    # without delay, h_k = -s (1 - s)^(k-1): excess s / (2 - s) < M
    assert mean_square_limit(0.0, 0.0, excess=3.0) == pytest.approx(2 / 4, rel=1e-6)


def test_contraction_of_local_steps() -> None:
    assert contraction(0.5, 2, 1.0) == pytest.approx(0.75, rel=1e-12)
    assert contraction(0.1, 1, 2.0) == pytest.approx(0.2, rel=1e-12)


@pytest.mark.parametrize(
    ("delays", "message"),
    [
        (0, "delays must be a whole number >= 1; got 0"),
        ([0.5, 0.4], "delays must be a whole number >= 1, or probabilities that sum to 1"),
        ([1.5, -0.5], "delays must be a whole number >= 1, or probabilities that sum to 1"),
        ([], "delays must be a whole number >= 1, or probabilities that sum to 1"),
        ("five", "delays must be a number of steps, or probabilities; got 'five'"),
    ],
)
def test_bad_delays_are_named(delays: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        stability_limit(0.5, 0.5, delays)


@pytest.mark.parametrize(("beta", "nu"), [(1.0, 0.5), (-0.1, 0.5), (0.5, 1.1), (0.5, -0.1)])
def test_parameters_outside_their_range_are_refused(beta: float, nu: float) -> None:
    with pytest.raises(ConfigError, match="must be in"):
        stability_limit(beta, nu, 3)
