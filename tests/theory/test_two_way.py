"""Lazy, accelerated, compressed adaptive methods: Theorems 4.1 to 4.6 with corollaries; q, gamma and lambda."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from fedpace import algorithms, tasks
from fedpace.errors import ConfigError
from fedpace.link import Dense, ScaledSign, TopK
from fedpace.theory import Setting, compression
from fedpace.theory import two_way_bounds as bounds
from fedpace.theory.two_way_bounds import Adaptive, Compression

# L = 2, K = 5, m = 10 clients, sigma² = 3, sigma_g² = 2, F_0 = 9, G² = 4, H = 6, d = 8
SETTING = Setting(2.0, 10, 5, noise=3.0, spread=2.0, gap=9.0, gradient=4.0, radius=6.0, size=8)
SAMPLED = replace(SETTING, per_round=4)
SERVER = Adaptive(0.5, beta1=0.5, beta2=0.75, eps=0.25)  # C_1 = 1, 2 sqrt(2(1 - b2)) G = 2 sqrt(.5) 2


def test_theorem_4_1_by_hand() -> None:
    """eta_l = .01, T = 100, c = .5: root √(.75·.01 + .25), Xi = 4·8/.5 + 2·.5·.01·5·2·32/.25, weight (4 + 2√2)/2."""
    found = bounds.bound(SETTING, SERVER, Compression(threshold=0.5), 0.01, 100)
    scale, weight = 4 * math.sqrt(0.75 * 0.0025 * 4 + 0.25), (4 * 0.5 * 2 + 2 * math.sqrt(0.5) * 2) / 2
    assert found.start == pytest.approx(scale * 9 / (0.5 * 0.01 * 500), rel=1e-12)
    assert found.adaptive == pytest.approx(scale * (64 + 12.8) / 100, rel=1e-12)
    assert found.drift == pytest.approx(scale * 5 * 5 * 4e-4 * 63 / math.sqrt(0.5), rel=1e-12)
    assert found.noise == pytest.approx(scale * weight * 0.01 * (0.3 + 2 * 5 * 0.25 * 4) / 0.25, rel=1e-12)
    assert found.lazy == pytest.approx(scale * math.sqrt(8) * 4 * 0.5, rel=1e-12)
    assert (found.sampling, found.down) == (0, 0)
    assert found.stays == found.lazy


def test_theorem_4_3_adds_who_was_sampled() -> None:
    """n = 4 of 10: twice the factor, sigma²/n, and (1/6)[15(KL e)²(sigma² + 6K sigma_g²) + 3K sigma_g²]."""
    found = bounds.bound(SAMPLED, SERVER, Compression(), 0.01, 100)
    scale, weight = 8 * math.sqrt(0.75 * 0.01 + 0.25), (4 * 0.5 * 2 + 2 * math.sqrt(0.5) * 2) / 2
    assert found.noise == pytest.approx(scale * weight * 0.01 * 0.75 / 0.25, rel=1e-12)
    left_out = (6 / 36) * (15 * 0.01 * 63 + 30)
    assert found.sampling == pytest.approx(scale * weight * 0.01 * left_out / 0.25, rel=1e-12)
    assert found.stays == 0


def test_compression_constants() -> None:
    """r = 1/8: q² = 7/8, 4q²/(1-q²)² = 224, growth 4 (15/8)³·64; C_1 and C_2 with gamma .3, lambda .2, c = .5."""
    q = math.sqrt(7 / 8)
    link = Compression(q, 0.3, 0.2, 0.5)
    assert bounds.memory_bound(q, 1.0, 1, 1.0) == pytest.approx(224, rel=1e-12)
    assert bounds.memory_bound(math.sqrt(127 / 128), 0.1, 5, 4.0) == pytest.approx(65024, rel=1e-9)
    assert link.growth == pytest.approx(4 * (15 / 8) ** 3 * 64, rel=1e-12)
    assert link.first(SERVER, SETTING) == pytest.approx(1 + math.sqrt(12 * 56 + 0.25 / 56), rel=1e-12)
    assert link.second(SERVER) == pytest.approx(1 + 4 * (q + 0.4) ** 2 * 64, rel=1e-12)
    sampled = link.first(SERVER, SAMPLED)
    assert sampled == pytest.approx(1 + 2.5 * math.sqrt(12 * 56 + 0.25 / 56), rel=1e-12)
    assert Compression().growth == 1 and Compression().first(SERVER, SETTING) == 1
    with pytest.raises(ConfigError, match=r"q must be in \[0, 1\)"):
        Compression(q=1.0)


def test_both_ways_never_vanish_and_grow_as_the_local_rate_falls() -> None:
    """Theorem 4.5: what stays is larger at a tenth of the rate."""
    link = Compression(0.9, 0.5, 0.0, 0.0, both_ways=True, down_gamma=0.5)
    large, small = (bounds.bound(SETTING, SERVER, link, rate, 10**6) for rate in (1e-3, 1e-4))
    assert small.stays > large.stays > 1
    one_way = bounds.bound(SETTING, SERVER, replace(link, both_ways=False), 1e-3, 10**6)
    assert one_way.stays == 0
    assert replace(large, down=0.0) == one_way


@pytest.mark.parametrize("link", [Compression(), Compression(0.9, 0.5)])
@pytest.mark.parametrize("setting", [SETTING, SAMPLED, replace(SETTING, per_round=1)])
def test_limits_are_where_the_conditions_stop_holding(setting: Setting, link: Compression) -> None:
    """e K √v̂ weight times max(2m(n-1)/(n(m-1)), 17.625(m-n)/(n(m-1))) = eps, or e = 1/(8KL)."""
    e, m, n = bounds.limit(setting, SERVER, link), 10, setting.m
    largest = math.sqrt(0.75 * link.growth * (e * 5) ** 2 * 4 + 0.25)
    weight = (3 + 2 * link.second(SERVER)) * 0.5 * 2 + 2 * math.sqrt(0.5) * 2
    twice = 1 if link.q else 2
    factor = max(twice * m * (n - 1) / (n * (m - 1)), 17.625 * (m - n) / (n * (m - 1)))
    left = e * 5 * largest * weight * factor
    assert left == pytest.approx(0.25, rel=1e-9) or (left < 0.25 and e == 1 / 80)


def test_corollaries() -> None:
    """T = 400, K = 4, m = 25: eta_l = 1/80, eta = 10, rate 1/200; n = 9 of 25: √(4/3600)."""
    setting = Setting(1.0, 25, 4)
    assert bounds.preset(setting, 400) == pytest.approx((1 / 80, 10), rel=1e-12)
    assert bounds.rate(setting, 400) == pytest.approx(1 / 200, rel=1e-12)
    assert bounds.rate(replace(setting, per_round=9), 400) == pytest.approx(1 / 30, rel=1e-12)


def test_the_suggested_threshold_never_fires() -> None:
    """O23: √(ln 100)/100 over 50: 4.29e-4."""
    assert bounds.suggested_threshold(100, 50) == pytest.approx(4.2919e-4, abs=5e-9)
    assert bounds.suggested_threshold(100, 50, 1e-4) == pytest.approx(0.042919, abs=5e-7)


# ------------------------------------------------------------------------------- q, gamma and lambda


def test_quality_of_codecs() -> None:
    """O3: (3, -1, 0, 2) by scaled sign: q² = 5/14; top-1 of (3, 1): q = 1/√10; whole vectors lose nothing."""
    assert compression.quality(ScaledSign(), np.array([3.0, -1.0, 0.0, 2.0])) == pytest.approx(
        math.sqrt(5 / 14), rel=1e-12
    )
    assert compression.quality(TopK(0.5), np.array([3.0, 1.0])) == pytest.approx(1 / math.sqrt(10), rel=1e-12)
    assert compression.quality(Dense(), np.ones(3)) == compression.quality(None, np.ones(3)) == 0
    assert compression.quality(TopK(0.5), np.zeros(2)) == 0
    assert compression.worst_quality(TopK(1 / 8), 64) == pytest.approx(math.sqrt(7 / 8), rel=1e-6)
    assert compression.worst_quality(None, 64) == 0


def test_gamma_by_hand() -> None:
    """Delta = (3, 1) and (1, 3), top-1: C(mean) = (2, 0), mean of C = (1.5, 1.5): √2.5 / √8."""
    task = tasks.quadratics([[3.0, 1.0], [1.0, 3.0]])
    algorithm = algorithms.fedcams(client_lr=1.0, steps=1, batch_size=None, codec="topk:1/2")
    [first] = compression.measure(task, algorithm, [0, 1], rounds=1)
    assert first.gamma == pytest.approx(math.sqrt(2.5 / 8), rel=1e-12)
    assert first.q == pytest.approx(1 / math.sqrt(10), rel=1e-12)
    assert (first.lam, first.fired) == (0, 0)


def test_lambda_by_hand() -> None:
    """Same Delta twice nearly: the lazy rule keeps the old one, and lambda is the change over the mean update."""
    task = tasks.quadratics([[4.0], [8.0]])
    algorithm = algorithms.fednlaa(client_lr=0.1, steps=1, batch_size=None, tau=0.5, server_lr=1e-9)
    first, second = compression.measure(task, algorithm, [0, 1], rounds=2)
    assert (first.fired, first.lam) == (0, 0)
    assert (second.fired, second.lam) == (1, pytest.approx(0, abs=1e-6))
    moving = algorithms.fednlaa(client_lr=0.1, steps=1, batch_size=None, tau=0.9, server_lr=0.01)
    _, second = compression.measure(task, moving, [0, 1], rounds=2)
    # the mean update .6 (v_hat = .01 max(eps, ...)): x_1 = .01 · .06 / √.0036 = .01, so Delta falls by .001 of .599
    assert second.lam == pytest.approx(0.001 / 0.599, rel=1e-6)


def test_accelerated_updates_are_added_up() -> None:
    """AA with identical updates: what the server uses is twice the update, and the memory takes it back or not."""
    task = tasks.quadratics([[4.0], [8.0]])
    for memory in ("judged", "fresh"):
        algorithm = algorithms.fedaca(
            client_lr=0.1, steps=1, batch_size=None, tau=0.5, codec="topk:1", memory=memory, server_lr=1e-9
        )
        found = compression.measure(task, algorithm, [0, 1], rounds=3)
        assert [q.fired for q in found] == ([0, 1, 0] if memory == "judged" else [0, 1, 1])


def test_gamma_is_not_small_with_top_k_on_real_updates() -> None:
    """Assumption C.1 asks for a constant; with 1/8 of the entries and error memory gamma grows beyond 1 on digits."""
    task = tasks.load("digits", 10, "dirichlet:0.5")
    algorithm = algorithms.fednlaca(client_lr=0.1, epochs=1)
    found = compression.measure(task, algorithm, range(10), rounds=11)
    assert found[0].gamma < 0.5
    assert 0.7 < found[5].gamma < 1 < found[-1].gamma
    assert all(0 < one.q < 1 for one in found)


def test_quality_of_a_quantised_cache() -> None:
    """The max-abs quantiser of b bits loses at most d max² / (4 levels²); whole caches lose nothing."""
    task = tasks.quadratics(np.array([[1.0, 0.3, 0.05, 0.72]] * 3), initial=0.0)
    four = algorithms.mf_ca2fl(client_lr=1.0, steps=1, batch_size=None, cache_bits=4, buffer=1, concurrency=2)
    lost = compression.cache_quality(task, four, 0)
    assert lost is not None and 0 < lost <= 4 / (4 * 49) / (1 + 0.09 + 0.0025 + 0.5184)
    whole = algorithms.ca2fl(steps=1, batch_size=None, buffer=1, concurrency=2)
    assert compression.cache_quality(task, whole, 0) is None
