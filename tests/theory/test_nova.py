"""The worked numbers of the spec's section 13 (ii), N4, and the bias of plain averaging."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from fedpace.errors import ConfigError
from fedpace.local import SGD
from fedpace.theory import (
    TwoClients,
    Work,
    advice,
    chi_squared,
    dissimilarity,
    final_error,
    gradient_error,
    nova_rates,
)
from fedpace.theory.nova_bounds import bound, limit, sampled_bound, sampled_limit

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
    """(99), and the sampled limit for q = 2, Bd^2 = 1, L = 1."""
    assert limit(WORK) == pytest.approx(0.034020690872, rel=1e-10)
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


# ------------------------------------------------------------------------- work drawn anew in every round

DRAWN = Work.drawn(
    SGD(0.1, steps=1), [[20 * e, 10 * e, 5 * e, 5 * e] for e in range(2, 6)], (400, 200, 100, 100)
)


def test_limits_of_random_work_hold_in_the_worst_round() -> None:
    """(152): samples 400, 200, 100, 100, batch 20, epochs 2..5: 1 / sqrt(12 * 100 * 99), not with the mean 70 * 69."""
    assert limit(DRAWN) == pytest.approx(1 / math.sqrt(12 * 9900), rel=1e-12)
    assert limit(DRAWN) == pytest.approx(0.00290, abs=5e-6)
    assert sampled_limit(DRAWN, 2) == pytest.approx(1 / (12 * 68.75 * 1.5), rel=1e-12)


def every_round(work: Work) -> list[Work]:
    """All 256 rounds that four clients with four outcomes each may have, as fixed work."""
    outcomes = itertools.product(range(len(work.k)), repeat=work.clients)
    local = SGD(0.1, steps=1)
    return [
        Work.of(local, [int(work.k[e, i]) for i, e in enumerate(round_)], work.p.tolist())
        for round_ in outcomes
    ]


def test_constants_of_random_work_are_means_over_the_rounds() -> None:
    """Theorem 3: A~ = 1.473 (1.375 at the mean), B~ and C~, against all rounds there are, one by one."""
    rounds = every_round(DRAWN)
    for name in ("a", "b"):
        mean = np.mean([getattr(work, name)(work.p) for work in rounds])
        assert getattr(DRAWN, name)(DRAWN.p) == pytest.approx(mean, rel=1e-12)
    assert DRAWN.c == pytest.approx(np.mean([work.c for work in rounds]), rel=1e-12)
    assert DRAWN.a(DRAWN.p) == pytest.approx(1.47294921875, rel=1e-12)
    assert Work.of(SGD(0.1, steps=1), (70, 35, 17, 18), DRAWN.p.tolist()).c < DRAWN.c == 5385.625


def test_fixed_work_is_its_own_mean() -> None:
    assert (DRAWN.is_random, WORK.is_random) == (True, False)
    assert (WORK.largest_c, WORK.largest_tau_eff) == (WORK.c, WORK.tau_eff)
    again = Work.drawn(SGD(0.1, steps=1), [K, K], P)
    assert (again.a(again.p), again.b(again.p), again.c) == pytest.approx(
        (WORK.a(WORK.p), WORK.b(WORK.p), WORK.c), rel=1e-14
    )


# ---------------------------------------------------------------------------------- orders of magnitude


def test_orders_of_magnitude() -> None:
    assert nova_rates.rate_optimal_lr(3, 16 / 3, 100) == pytest.approx(0.075, rel=1e-12)
    assert nova_rates.best_proximal(3, 16 / 3, 100) == pytest.approx(0.438602660732, rel=1e-10)
    assert nova_rates.best_proximal(100, 1, 1) < 1


def test_best_proximal_strength_of_16_clients() -> None:
    """16 clients, K = 100, T = 100: rate sqrt(16 / 10^4) = .04, alpha* = 2^(1/3) * .4 * 100^(-1/6) = .234."""
    assert nova_rates.rate_optimal_lr(16, 100, 100) == pytest.approx(0.04, rel=1e-12)
    assert nova_rates.best_proximal(16, 100, 100) == pytest.approx(0.234, abs=5e-4)


@pytest.mark.parametrize(("clients", "steps", "rounds"), [(16, 100, 100), (4, 50, 1000), (100, 400, 10**5)])
def test_best_proximal_is_where_138_is_least(clients: int, steps: float, rounds: int) -> None:
    """And there (138) is (133) up to its constant: between one and three times it."""
    best = nova_rates.best_proximal(clients, steps, rounds)
    found = optimize.minimize_scalar(
        lambda alpha: nova_rates.fedprox_error(alpha, clients, steps, rounds),
        bounds=(1e-6, 1),
        method="bounded",
    )
    assert best == pytest.approx(found.x, rel=1e-3)
    least = nova_rates.fedprox_error(best, clients, steps, rounds)
    assert 1 < least / nova_rates.fedprox_rate(clients, steps, rounds) < 3


def test_133_and_138_by_hand() -> None:
    """N = 4, K = 25, T = 64: sqrt(NKT) = 80; alpha = 1/2: (12.5 + 1)/80 + 4 / (25 * 64 / 4); 1/80 + 1/16."""
    assert nova_rates.fedprox_error(0.5, 4, 25, 64) == pytest.approx(13.5 / 80 + 0.01, rel=1e-12)
    assert nova_rates.fedprox_rate(4, 25, 64) == pytest.approx(1 / 80 + 1 / 16, rel=1e-12)
    assert nova_rates.max_steps_for_linear_speedup(16, 10**4) == pytest.approx(10 / 8, rel=1e-12)


def test_rates_by_hand() -> None:
    """K = N = 4, T = 100: A = 1, B = 3, C = 12; (1 + 1)/40 + 4 * 15/400; sampled, q = 1: 2/20 + 15/400."""
    work = Work.of(SGD(0.1, steps=1), (4, 4, 4, 4))
    assert nova_rates.rate(work, 100) == pytest.approx(2 / 40 + 0.15, rel=1e-12)
    assert nova_rates.rate(work, 100, draws=1) == pytest.approx(2 / 20 + 0.0375, rel=1e-12)
    assert nova_rates.fedavg_rate(work, 100) == pytest.approx(1 / 40 + 4 * (3 + 12) / 400, rel=1e-12)


# ----------------------------------------------------------------------------------------- Lemma 4


@pytest.mark.parametrize(("a", "steps"), [(3.0, (1, 4)), (1.0, (2, 3)), (0.5, (7, 1))])
def test_lemma_4_holds_with_equality(a: float, steps: tuple[int, int]) -> None:
    """||grad F||^2 = chi^2 kappa^2, with kappa^2 from the gradients themselves; (116) prints half of it."""
    example = TwoClients(a, steps)
    gradients = np.array([[example.w[1] - example.w[0] - 1.0], [example.w[1] - example.w[0] + 1.0]]) * -a
    assert example.kappa2 == pytest.approx(dissimilarity(gradients, example.w), rel=1e-12)
    assert example.left == pytest.approx(example.chi2 * example.kappa2, rel=1e-12)
    assert 2 * example.w[0] * example.w[1] * a**2 == pytest.approx(example.kappa2 / 2, rel=1e-12)


def test_lemma_4_by_hand() -> None:
    """N5: a = 3, K = (1, 4): 3.24 = 0.5625 * 5.76, half of the 6.48 that Theorem 2 allows."""
    example = TwoClients(3.0, (1, 4))
    assert (example.left, example.chi2, example.kappa2) == pytest.approx((3.24, 0.5625, 5.76), rel=1e-12)
    assert final_error(example.chi2, 0.0, kappa2=example.kappa2) == pytest.approx(6.48, rel=1e-12)


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
    assert line.startswith(
        "plain averaging is biased here: chi-squared 0.429, 27% of the weight is misplaced"
    )
    assert "client 2 counts 2.1 times its share" in line
    assert line.endswith('under client sampling with tau_eff="population", its default')
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
