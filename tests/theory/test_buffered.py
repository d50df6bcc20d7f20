"""FedBuff, CA2FL and MF-CA2FL: what the theorems say once they are corrected, and why they had to be."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import fedpace
from fedpace import algorithms, tasks
from fedpace.sim import Population
from fedpace.theory import Setting
from fedpace.theory import buffered_bounds as bounds
from fedpace.theory.delays import mean_staleness, seen_in
from fedpace.theory.momentum_rates import skewed_arrival

# L = 2, K = 5, M = 4 of N = 10, sigma² = 3, sigma_g² = 2, F_0 = 9
SETTING = Setting(2.0, 10, 5, 4, noise=3.0, spread=2.0, gap=9.0)
ALONE = Setting(1.0, 1, 1, 1, noise=0.0, spread=0.0, gap=0.5)  # gradient descent on x²/2 from x = 1


def test_fedbuff_by_hand() -> None:
    """eta = 2, eta_l = .01, tau = 3, T = 100: V = 15/4 + (1/6)(15·125·4e-4·63·... ) term by term."""
    found = bounds.fedbuff_bound(SETTING, 0.01, 2.0, 3, 100)
    local = 3 + 6 * 5 * 2
    variance = 5 * 3 / 4 + (6 / 36) * (15 * 125 * 4e-4 * local + 3 * 25 * 2)
    assert found.start == pytest.approx(36 / (0.02 * 500), rel=1e-12)
    assert found.drift == pytest.approx(20 * 5 * 4e-4 * local, rel=1e-12)
    assert found.noise == pytest.approx(2 * 2 * 0.02 * variance / 5, rel=1e-12)
    assert found.stale == pytest.approx(4 * 4 * 9 * 0.0004 * variance, rel=1e-12)
    assert found.total == pytest.approx(found.start + found.drift + found.noise + found.stale, rel=1e-12)


def test_ca2fl_by_hand() -> None:
    """c = .36, zeta = 8: 20·5.16·5·4e-4·63, 6·2·.02·3/4, 36·4·4e-4·5·(9 + .72·64)·3/4."""
    found = bounds.ca2fl_bound(SETTING, 0.01, 2.0, 3, 8, 100)
    assert found.start == pytest.approx(3.6, rel=1e-12)
    assert found.drift == pytest.approx(20 * 5.16 * 5 * 4e-4 * 63, rel=1e-12)
    assert found.noise == pytest.approx(0.18, rel=1e-12)
    assert found.stale == pytest.approx(36 * 4 * 4e-4 * 5 * (9 + 46.08) * 0.75, rel=1e-12)
    noisy = bounds.ca2fl_bound(SETTING, 0.01, 2.0, 3, 8, 100, bounds.inflation(0.2, 0.1))
    assert (noisy.noise / found.noise, noisy.stale / found.stale) == pytest.approx((1.42, 1.42), rel=1e-12)


def test_limits_by_hand() -> None:
    """CA2FL, KL = 10: roots of (F.12) and (F.13); without delay and all clients 1/(8KL)."""
    square = 100 * (54 + 12 * 0.36 * 64)
    root = (math.sqrt(100 + 4 * square) - 10) / (2 * square)
    local = 1 / (20 * math.sqrt(30) * math.sqrt(12 + 6 * 0.36 * 9))
    assert bounds.ca2fl_limit(SETTING, 2.0, 3, 8) == pytest.approx(min(root / 2, local), rel=1e-9)
    assert bounds.ca2fl_limit(SETTING, 0.001, 3, 8) == pytest.approx(local, rel=1e-12)
    calm = replace(SETTING, per_round=10)
    assert bounds.ca2fl_limit(calm, 0.001, 0, 0) == pytest.approx(1 / (20 * math.sqrt(90)), rel=1e-12)
    assert bounds.fedbuff_limit(calm, 0.001, 0) == pytest.approx(
        min(1 / 80, 1 / math.sqrt(120) / 10), rel=1e-9
    )


def test_the_fedbuff_limit_is_where_its_conditions_stop_holding() -> None:
    """(G): 30(KL e)²(tau+1) + (r K L² tau² + L/2) r rho (90(KL e)² + 3) K (tau+1) = 1/4 at the limit."""
    e = bounds.fedbuff_limit(SETTING, 2.0, 3)
    r, rho = 2 * e, 6 / 36
    moved = r * 5 * 4 * 9 + 1
    left = 30 * 100 * e**2 * 4 + moved * r * rho * (90 * 100 * e**2 + 3) * 5 * 4
    assert left == pytest.approx(0.25, rel=1e-9)


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5, 1.0])
def test_the_printed_bounds_are_broken_by_gradient_descent(rate: float) -> None:
    """One client, no noise, no delay: (1/T) sum x² <= F_0 / (r T) is false at every rate; four times it is true.

    x_t = (1 - r)^t: the sum is (1 - q^T) / (1 - q), q = (1 - r)², and f_0 - f_T = (1 - q^T) / 2.
    """
    steps, q = 50, (1 - rate) ** 2
    mean = (1 - q**steps) / (1 - q) / steps
    fallen = replace(ALONE, gap=(1 - q**steps) / 2)
    for bound in (
        bounds.fedbuff_bound(fallen, rate, 1.0, 0, steps),
        bounds.ca2fl_bound(fallen, rate, 1.0, 0, 0, steps),
    ):
        printed = bound.start / 4  # (B.1), (B.3) and (C.3): F_0 / (eta eta_l K T), all other terms are 0
        assert bound.total == bound.start
        assert printed < mean <= bound.start


def test_the_printed_c3_has_no_noise_without_quantisation() -> None:
    """gamma = q = 0 makes (C.3)'s noise vanish; stochastic gradient descent with r = .1 does not stand still."""
    rng, x, r, squares = np.random.default_rng(0), 1.0, 0.1, []
    for _ in range(20_000):
        squares.append(x * x)
        x -= r * (x + rng.normal())
    mean = float(np.mean(squares))
    assert mean == pytest.approx(r / (2 - r), rel=0.1)
    tiny = Setting(1.0, 1, 1, 1, noise=1.0, spread=0.0, gap=0.5)
    noisy = bounds.ca2fl_bound(tiny, r * 1e-6, 1e6, 0, 0, 20_000)
    assert noisy.start / 4 < mean < noisy.total
    assert bounds.inflation(0.0) == 1.0


def test_orders_by_hand() -> None:
    """T = 500: sqrt(TKM) = 100; FedBuff's joint term K tau² sigma_g² / T = .18, CA2FL's cache .36·64·3/500."""
    fedbuff, ca2fl = bounds.fedbuff_orders(SETTING, 3, 500), bounds.ca2fl_orders(SETTING, 3, 8, 500)
    assert (fedbuff.start, fedbuff.noise, fedbuff.drift) == pytest.approx((0.09, 0.03, 13 / 2500), rel=1e-12)
    assert (fedbuff.members, fedbuff.stale_spread) == pytest.approx(
        (math.sqrt(5 / 2000) * 2, 0.18), rel=1e-12
    )
    assert fedbuff.stale_noise == ca2fl.stale_noise == pytest.approx(27 / 500, rel=1e-12)
    assert (ca2fl.members, ca2fl.stale_spread) == (0, 0)
    assert ca2fl.cache == pytest.approx(0.36 * 64 * 3 / 500, rel=1e-12)
    assert bounds.preset(SETTING, 400) == pytest.approx((1 / 100, math.sqrt(20)), rel=1e-12)
    doubled = bounds.ca2fl_orders(SETTING, 3, 8, 500, 2.0)
    assert (doubled.noise, doubled.cache) == (2 * ca2fl.noise, 2 * ca2fl.cache)
    assert ca2fl.total == pytest.approx(0.09 + 0.03 + 13 / 2500 + 0.054 + ca2fl.cache, rel=1e-12)


# -------------------------------------------------------------------------------- runs and the theory

CLIENTS = 10
TASK = tasks.quadratics(np.arange(CLIENTS, dtype=float))  # optimum 4.5, sigma_g² = 8.25
SLOW = Population.from_times([1.0 + i for i in range(CLIENTS)])  # client i takes i + 1 seconds


def tail(name: str, server_lr: float, rounds: int) -> tuple[float, tuple[float, ...]]:
    """Where the model stays, and the clients' shares of the arrivals."""
    algorithm = getattr(algorithms, name)(
        client_lr=0.1, steps=1, batch_size=None, buffer=2, concurrency=5, server_lr=server_lr
    )
    run = fedpace.simulate(
        algorithm, TASK, SLOW, rounds=rounds, keep_models=True, evaluate_every=None, traces=False
    )
    assert run.models is not None
    found = seen_in(run.history, algorithm.pace, CLIENTS)
    return float(np.mean([x[0] for x in run.models[rounds // 3 :]])), tuple(found.shares)


def test_unequal_arrivals_leave_what_no_learning_rate_removes() -> None:
    """Corollary 5.4: FedBuff's gradient stays, as predicted from the arrivals and below N sum (a - 1/N)² sigma_g²."""
    (x, shares), (slower, _) = tail("fedbuff", 0.4, 900), tail("fedbuff", 0.1, 1500)
    left = (x - 4.5) ** 2
    assert left > 0.1
    assert (slower - 4.5) ** 2 == pytest.approx(left, rel=0.6)
    assert x == pytest.approx(float(np.dot(shares, np.arange(CLIENTS))), abs=0.15)
    assert left < skewed_arrival(shares) * 8.25 < 6 * 8.25
    assert tail("ca2fl", 0.4, 600)[0] == pytest.approx(4.5, abs=0.01)


def test_a_client_that_never_arrives_costs_sigma_g() -> None:
    """Two clients at ±a, only one of them ever chosen: ||grad f||² ends at a² = sigma_g² exactly, 1/6 of the bound."""
    task = tasks.quadratics([-3.0, 3.0])
    algorithm = algorithms.autonomous_fedgm(
        client_lr=0.1, steps=2, batch_size=None, history=3, clients_per_round=1, select=[[1]] * 400, k_ref=2,
        server_lr=0.5, beta=0.5, nu=0.5,
    )  # fmt: skip
    run = fedpace.simulate(algorithm, task, rounds=400, evaluate_every=None, traces=False)
    assert float(run.model[0]) ** 2 == pytest.approx(9.0 * skewed_arrival([0.0, 1.0]), rel=1e-9)
    assert skewed_arrival([0.5, 0.5]) == 0 and skewed_arrival([0.0, 1.0]) == 1


@pytest.mark.parametrize("name", ["fedbuff", "ca2fl"])
def test_a_run_within_the_condition_stays_below_the_bound(name: str) -> None:
    algorithm = getattr(algorithms, name)(client_lr=0.1, steps=3, batch_size=None, buffer=3, concurrency=6)
    plan = fedpace.simulate(algorithm, TASK, SLOW, rounds=200, evaluate_every=None, traces=False)
    seen = seen_in(plan.history, algorithm.pace, CLIENTS)
    setting = Setting(1.0, CLIENTS, 3, 3, noise=0.0, spread=8.25, gap=4.5**2 / 2)
    if name == "ca2fl":
        rate = bounds.ca2fl_limit(setting, 1.0, seen.largest, seen.cache_age)
        bound = bounds.ca2fl_bound(setting, rate, 1.0, seen.largest, seen.cache_age, 200).total
    else:
        rate = bounds.fedbuff_limit(setting, 1.0, seen.largest)
        bound = bounds.fedbuff_bound(setting, rate, 1.0, seen.largest, 200).total
    again = getattr(algorithms, name)(client_lr=rate, steps=3, batch_size=None, buffer=3, concurrency=6)
    run = fedpace.simulate(again, TASK, SLOW, rounds=200, keep_models=True, evaluate_every=None, traces=False)
    assert np.mean([(x[0] - 4.5) ** 2 for x in run.models or ()]) <= bound


# ------------------------------------------------------------------------------------------ delays


@pytest.mark.parametrize(
    ("name", "more", "law"),
    [
        ("fedbuff", {"buffer": 2, "concurrency": 6}, 6 / 2 - 1),
        ("fedbuff", {"buffer": 2, "concurrency": 7, "dispatch": "immediate"}, 6 / 2),
        ("fedasync", {"concurrency": 4}, 3.0),
        ("defedavg_iid", {"buffer": 3, "reuse_model": True}, 9 / 3),
        ("fedavg", {}, 0.0),
    ],
)
def test_mean_staleness_by_its_law(name: str, more: dict[str, object], law: float) -> None:
    """For any speeds; the mean over a run comes close to it."""
    algorithm = getattr(algorithms, name)(steps=1, batch_size=None, **more)
    assert mean_staleness(algorithm.pace, CLIENTS) == law
    run = fedpace.simulate(
        algorithm, TASK, Population.exponential(1.0), rounds=400, evaluate_every=None, traces=False
    )
    found = seen_in(run.history, algorithm.pace, CLIENTS)
    assert found.mean == pytest.approx(law, rel=0.1, abs=1e-12)
    assert found.exact_mean == law
    assert (found.chances @ np.arange(len(found.chances)), found.chances.sum()) == pytest.approx(
        (found.mean, 1.0)
    )
    assert found.shares.sum() == pytest.approx(1.0)


def test_the_oldest_cached_update_by_hand() -> None:
    """Client 1 is heard at step 1 from version 0 and never again: at step 4 its update is 4 steps old."""

    class Step:
        def __init__(self, clients: list[int], staleness: list[int]) -> None:
            self.clients, self.staleness = clients, staleness

    history = [Step([0], [0]), Step([1], [1]), Step([0], [0]), Step([0], [0]), Step([0], [1])]
    found = seen_in(history, algorithms.ca2fl(buffer=1, concurrency=2).pace, 2)
    assert (found.cache_age, found.largest) == (4, 1)
