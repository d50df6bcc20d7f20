"""DeFedAvg: conditions (11) and (13), bounds (12) and (14), delays."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from fedpace.errors import ConfigError
from fedpace.theory import Setting
from fedpace.theory import defedavg_bounds as bounds
from fedpace.theory.defedavg_bounds import Rates

# L = 2, K = 5, n = 4 of 10, sigma² = 3, G² = 7, nu² = 2, F_0 = 9
SETTING = Setting(2.0, 10, 5, 4, noise=3.0, spread=1.0, gap=9.0, gradient=7.0, widest=2.0)


def test_condition_11_by_hand() -> None:
    """lambda = 3: min{1/120, (6 + 35) / (8·3·2·5·3 + 4·2·7·25·9)} = min{1/120, 41/13320}; eta-bar <= 1/80."""
    assert bounds.niid_largest_product(SETTING, 3) == pytest.approx(41 / 13320, rel=1e-12)
    assert bounds.niid_limit(SETTING, 0.1, 3) == pytest.approx(1 / 80, rel=1e-12)
    assert bounds.niid_limit(SETTING, 2.0, 3) == pytest.approx(41 / 26640, rel=1e-12)
    assert bounds.niid_largest_product(SETTING, 0) == bounds.niid_largest_product(SETTING, 1)


def test_condition_13_by_hand() -> None:
    assert bounds.iid_limit(SETTING, 2.0, 3) == pytest.approx(1 / 240, rel=1e-12)
    assert bounds.iid_limit(SETTING, 0.01, 3) == pytest.approx(1 / (40 * math.sqrt(3)), rel=1e-12)


def test_bounds_by_hand() -> None:
    """eta = 2, eta-bar = .01, T = 100: 36/(5·100·.02), (96 + 560)·.02/4, (3 + 80)·8·4·5·1e-4; IID 8·2·.02·3/4 ..."""
    found = bounds.niid_bound(SETTING, Rates(0.01, 2.0), 100)
    assert (found.start, found.noise, found.drift) == pytest.approx((3.6, 3.28, 1.328), rel=1e-12)
    assert found.total == pytest.approx(8.208, rel=1e-12)
    iid = bounds.iid_bound(SETTING, Rates(0.01, 2.0), 100)
    assert (iid.start, iid.noise, iid.drift) == pytest.approx((3.6, 0.24, 0.048), rel=1e-12)


def test_the_theorems_rates_give_the_printed_rates_of_convergence() -> None:
    """(12): 10/32 of its first term, its second exactly; (14) exactly, with L sigma² under the root."""
    rates = bounds.niid_rates(SETTING, 1000)
    noise = 4 * 3 * 2 + 2 * 2 * 5 * 7
    assert rates.server_lr == pytest.approx(math.sqrt(4 * 4 * 5 * 9), rel=1e-12)
    assert rates.client_lr == pytest.approx(1 / (5 * math.sqrt(noise * 1000)), rel=1e-12)
    found = bounds.niid_bound(SETTING, rates, 1000)
    first = math.sqrt(256 * 9 * 4 * noise / (4 * 5 * 1000))
    assert found.start + found.noise == pytest.approx(first * 10 / 32, rel=1e-12)
    assert bounds.niid_printed(SETTING, 1000) == pytest.approx(first + found.drift, rel=1e-12)
    iid = bounds.iid_rates(SETTING, 1000)
    assert bounds.iid_bound(SETTING, iid, 1000).total == pytest.approx(
        bounds.iid_printed(SETTING, 1000), rel=1e-12
    )


@pytest.mark.parametrize("delay", [1, 3, 10])
def test_rounds_from_which_the_theorems_hold(delay: int) -> None:
    """At that T the theorem's own rates meet the condition with equality, one round earlier they do not."""
    for least, rates, limit in (
        (bounds.niid_min_rounds, bounds.niid_rates, bounds.niid_limit),
        (bounds.iid_min_rounds, bounds.iid_rates, bounds.iid_limit),
    ):
        rounds = math.ceil(least(SETTING, delay))
        chosen = rates(SETTING, rounds)
        assert chosen.client_lr <= limit(SETTING, chosen.server_lr, delay) * (1 + 1e-9)
        early = rates(SETTING, rounds - 1)
        assert early.client_lr > limit(SETTING, early.server_lr, delay)


def test_linear_speedup_against_delay() -> None:
    """IID: n K <= T sigma² / (8 L lambda² F_0): 4 times the delay, 1/16 of the updates; nIID at most lambda^4."""
    most = bounds.iid_max_updates(SETTING, 2, 10**6)
    assert most * 5 == pytest.approx(10**6 * 3 / (8 * 2 * 4 * 9), rel=1e-12)
    assert bounds.iid_max_updates(SETTING, 8, 10**6) == pytest.approx(most / 16, rel=1e-12)
    ratio = bounds.niid_max_updates(SETTING, 2, 10**6) / bounds.niid_max_updates(SETTING, 20, 10**6)
    assert 100 <= ratio <= 10**4
    calm = replace(SETTING, noise=0.0)
    assert bounds.niid_max_updates(calm, 2, 10**6) / bounds.niid_max_updates(
        calm, 20, 10**6
    ) == pytest.approx(10**4, rel=1e-12)


def test_without_noise_the_iid_theorem_sets_no_rate() -> None:
    calm = replace(SETTING, noise=0.0, gradient=0.0)
    assert bounds.iid_min_rounds(calm, 3) == bounds.iid_rates(calm, 10).client_lr == math.inf
    assert bounds.niid_largest_product(calm, 3) == 1 / 120


def test_delays_of_drawn_clients() -> None:
    """N = 100, n = 10, T = 500: log(10^6) / (-10 log .99) = 137.5; (1 + log 10^6) / .0956 = 154.97."""
    assert bounds.longest_absence(100, 10, 500) == 138
    assert bounds.delay_order(100, 10, 500) == pytest.approx(
        (1 + math.log(10**6)) / (1 - 0.99**10), rel=1e-12
    )
    assert bounds.longest_absence(1, 1, 500) == 1
    with pytest.raises(ConfigError, match="risk must be in"):
        bounds.longest_absence(10, 1, 100, risk=0.0)


def test_the_longest_absence_is_rarely_exceeded() -> None:
    """200 runs of 300 steps of 5 draws from 20: fewer than the promised 5 percent see a longer one."""
    rng, clients, draws, steps = np.random.default_rng(0), 20, 5, 300
    limit, exceeded = bounds.longest_absence(clients, draws, steps), 0
    for _ in range(200):
        drawn = np.zeros((steps, clients), dtype=bool)
        drawn[np.arange(steps)[:, None], rng.integers(clients, size=(steps, draws))] = True
        since, longest = np.zeros(clients, dtype=int), 0
        for row in drawn:
            since = np.where(row, 0, since + 1)
            longest = max(longest, int(since.max()))
        exceeded += longest >= limit
    assert exceeded <= 10
