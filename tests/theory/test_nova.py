"""The worked numbers of the spec's section 13 (ii), N4, and the bias of plain averaging."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedpace.errors import ConfigError
from fedpace.local import SGD
from fedpace.theory import Work, advice, chi_squared, final_error, gradient_error
from fedpace.theory.nova_bounds import (
    best_proximal,
    bound,
    limit,
    rate_optimal_lr,
    sampled_bound,
    sampled_limit,
    simple_limit,
)

P, K = (0.5, 0.3, 0.2), (2, 5, 9)
WORK = Work.of(SGD(0.1, steps=1), K, P)


@pytest.mark.parametrize(
    ("rule", "tau_eff", "plain", "c", "chi2", "nova"),
    [
        ({}, 4.3, (0.913953488372, 4.976744186047), 72, 0.428555555556, (1.902033333333, 3.3)),
        (
            {"prox_mu": 1.0},
            3.403689022,
            (0.828467152573, 2.352619818305),
            31.399570619700,
            0.256182495651,
            (1.516463812812, 1.828039689003),
        ),
        (
            {"momentum": 0.9},
            12.366798802,
            (2.714394799972, 102.515804833044),
            1180.898701895693,
            1.485400888111,
            (6.062841780403, 45.407190849256),
        ),
    ],
)
def test_constants_of_each_solver(
    rule: dict[str, Any],
    tau_eff: float,
    plain: tuple[float, float],
    c: float,
    chi2: float,
    nova: tuple[float, float],
) -> None:
    """N4."""
    work = Work.of(SGD(0.1, steps=1, **rule), K, P)
    assert (work.tau_eff, work.c, work.chi2) == pytest.approx((tau_eff, c, chi2), rel=1e-9)
    assert (work.a(work.w), work.b(work.w)) == pytest.approx(plain, rel=1e-11)
    assert (work.a(work.p), work.b(work.p)) == pytest.approx(nova, rel=1e-11)


def test_uniform_shares_in_closed_form() -> None:
    """N4: A = 1, B = mean - 1 + var / mean = 5.875."""
    work = Work.of(SGD(0.1, steps=1), K)
    assert (work.tau_eff, work.a(work.w), work.b(work.w)) == pytest.approx((16 / 3, 1, 5.875), rel=1e-12)


def test_a_vanishing_pull_has_the_constants_of_plain_sgd() -> None:
    near = Work.of(SGD(0.1, steps=1, prox_mu=1e-5), K, P)
    assert (near.tau_eff, near.a(near.w), near.b(near.w)) == pytest.approx(
        (WORK.tau_eff, WORK.a(WORK.w), WORK.b(WORK.w)), rel=2e-5
    )


@pytest.mark.parametrize(
    ("mu", "expected"),
    [
        (0.0, (0.232558139535, 0.348837209302, 0.418604651163)),
        (1.0, (0.279108929711, 0.360940729914, 0.359950340375)),
    ],
)
def test_surrogate_weights(mu: float, expected: tuple[float, ...]) -> None:
    """N2."""
    np.testing.assert_allclose(Work.of(SGD(0.1, steps=1, prox_mu=mu), K, P).w, expected, rtol=1e-11)


@given(
    steps=st.lists(st.integers(1, 50), min_size=1, max_size=8),
    seed=st.integers(0, 1000),
)
def test_no_bias_if_and_only_if_the_work_is_equal(steps: list[int], seed: int) -> None:
    shares = np.random.default_rng(seed).uniform(0.1, 1, size=len(steps)).tolist()
    work = Work.of(SGD(0.1, steps=1, momentum=0.5), steps, shares)
    assert work.w.sum() == pytest.approx(1, rel=1e-12)
    assert (work.chi2 > 1e-12) == (len(set(steps)) > 1)
    assert (advice(work, threshold=1e-12) is None) == (len(set(steps)) == 1)


def test_limits() -> None:
    """(99), (101), and the sampled limit for q = 2, Bd^2 = 1, L = 1."""
    assert limit(WORK) == pytest.approx(0.034020690872, rel=1e-10)
    assert simple_limit(WORK) == pytest.approx(0.032075014955, rel=1e-10)
    assert sampled_limit(WORK, 2) == pytest.approx(0.012919896641, rel=1e-10)
    assert 1 / (2 * WORK.tau_eff) == pytest.approx(0.116279069767, rel=1e-10)
    drift = 1 / math.sqrt(4 * WORK.c * 13)
    assert drift == pytest.approx(0.016343011262, rel=1e-10)
    assert sampled_limit(WORK, 10**9) == pytest.approx(drift, rel=1e-6)
    assert limit(WORK, smoothness=10) == pytest.approx(0.0034020690872, rel=1e-10)


def test_without_drift_only_the_step_of_a_round_limits() -> None:
    """K = 1 for all: C = 0, (98) alone."""
    assert limit(Work.of(SGD(0.1, steps=1), (1, 1))) == 0.5


def test_bound_terms() -> None:
    """At client_lr = 0.02, T = 100: 0.465116, 0.050721, 0.00792, 0.3456."""
    found = bound(WORK, 0.02, 100)
    terms = (found.start, found.noise, found.drift_noise, found.drift)
    np.testing.assert_allclose(terms, (0.465116, 0.050721, 0.00792, 0.3456), atol=5e-7)
    assert found.total == pytest.approx(sum(terms), rel=1e-12)
    plain = bound(WORK, 0.02, 100, w=WORK.w)
    assert plain.noise == pytest.approx(4 * 0.02 * 0.913953488372 / 3, rel=1e-10)
    assert 4 * 0.02**2 * WORK.c == pytest.approx(0.1152, rel=1e-12)


def test_sampled_bound_term_by_term() -> None:
    found = sampled_bound(WORK, 0.02, 100, 2)
    assert found.start == pytest.approx(2 * 0.465116279, rel=1e-8)
    assert found.noise == pytest.approx(8 * 4.3 * 0.02 * 4 / 2, rel=1e-12)
    assert found.drift_noise == pytest.approx(8 * 0.00792, rel=1e-12)
    assert found.drift == pytest.approx(8 * 0.3456, rel=1e-12)


def test_orders_of_magnitude() -> None:
    assert rate_optimal_lr(3, 16 / 3, 100) == pytest.approx(0.075, rel=1e-12)
    assert best_proximal(3, 16 / 3, 100) == pytest.approx(0.438602660732, rel=1e-10)
    assert best_proximal(100, 1, 1) < 1


def test_what_the_bias_costs() -> None:
    """chi^2 = 0.5: ((B^2 - 1) g + kappa^2) / 2, and 2 chi^2 kappa^2 that no training removes."""
    assert gradient_error(0.5, 3.0, bd2=2.0, kappa2=4.0) == 3.5
    assert final_error(0.5, 0.0, kappa2=4.0) == 4.0
    assert final_error(0.5, 1.0, bd2=2.0, kappa2=4.0) == 7.0
    with pytest.raises(ConfigError, match="bd2 must be >= 1"):
        final_error(0.5, 1.0, bd2=0.5)


def test_a_share_without_a_weight_is_infinitely_biased() -> None:
    assert chi_squared(np.array([0.5, 0.5]), np.array([1.0, 0.0])) == math.inf
    assert chi_squared(np.array([1.0, 0.0]), np.array([1.0, 0.0])) == 0.0


def test_one_line_of_advice() -> None:
    line = advice(WORK)
    assert line is not None
    assert line.startswith("plain averaging is biased here: chi-squared 0.429, 27% of the objective goes")
    assert "client 2 counts 2.1 times its share" in line
    assert advice(Work.of(SGD(0.1, steps=1), (5, 5, 5))) is None


@pytest.mark.parametrize(
    ("steps", "p", "message"),
    [
        ([], None, "steps must be one number per client"),
        ([1, 2], [1.0], "p must be 2 shares, one per client; got 1"),
        ([1, 2], [1.0, -1.0], "p must be shares >= 0, not all 0"),
        ([1, 2], [0.0, 0.0], "p must be shares >= 0, not all 0"),
    ],
)
def test_bad_input_is_named(steps: list[int], p: list[float] | None, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Work.of(SGD(0.1, steps=1), steps, p)
