"""The worked numbers of the spec's section 13 (i), and what the formulas must do at their ends."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedpace.errors import ConfigError
from fedpace.server_opt import Adam, Momentum, Stages
from fedpace.theory import multistage
from fedpace.theory.momentum_bounds import (
    Schedule,
    Setting,
    bound_autonomous,
    bound_full,
    bound_partial,
    limit_full,
    limit_partial,
    limits_autonomous,
    sampling_factor,
)

SCHEDULE = Schedule.of(multistage((2, 1, 0.5), 1000, 0.9, 0.9))
PLAIN = Schedule.of(multistage((2, 1, 0.5), 1000, 0.9, 0.0))
SETTING = Setting(smoothness=1.0, clients=100, steps=5, per_round=5)


def test_schedule_quantities() -> None:
    assert SCHEDULE.w1 == pytest.approx(16.2, rel=1e-12)
    assert SCHEDULE.w2 == pytest.approx(285.714, abs=5e-4)
    assert (SCHEDULE.lr, SCHEDULE.lr2, SCHEDULE.lr3) == pytest.approx((7 / 6, 1.75, 73 / 24), rel=1e-12)
    assert SCHEDULE.c == 4
    assert SCHEDULE.c_beta == pytest.approx(3.7, rel=1e-12)


def test_c_beta_may_exceed_c() -> None:
    """G11: eta 2 -> 1, beta_1 = 1/2, nu 1 -> 1/4 gives beta_2 = 8/9 and C_beta = 4.5 > 2."""
    found = Schedule.of(Stages(((1, Momentum(2.0, 0.5, 1.0)), (2, Momentum(1.0, 8 / 9, 0.25)))))
    assert (found.c, found.c_beta) == pytest.approx((2, 4.5), rel=1e-12)


def test_limits() -> None:
    assert limit_full(SCHEDULE, SETTING) == pytest.approx(1.5844e-5, rel=5e-5)
    assert limit_partial(SCHEDULE, SETTING) == pytest.approx(1.8985e-5, rel=5e-5)
    assert limit_full(PLAIN, SETTING) == pytest.approx(7.6923e-3, rel=5e-5)
    assert limit_partial(PLAIN, SETTING) == pytest.approx(2.3186e-3, rel=5e-5)


def test_limits_of_autonomous_clients() -> None:
    found = limits_autonomous(SCHEDULE, SETTING, delay=4)
    np.testing.assert_allclose(found, (0.025, 0.00456435, 3.96098e-6), rtol=5e-6)
    general = limits_autonomous(SCHEDULE, SETTING, delay=4, any_arrival=True)
    np.testing.assert_allclose(general, (0.025, 0.00372678, 7.92177e-5), rtol=5e-6)


def test_without_delay_the_conditions_are_finite_and_linear() -> None:
    """s = 0: the quadratic condition becomes slope e = M / N."""
    _, second, third = limits_autonomous(PLAIN, SETTING, delay=0)
    assert second == pytest.approx((1 / (120 * 4 * 25)) ** 0.5, rel=1e-12)
    assert third == pytest.approx(0.05 / (4 * 3 * (7 / 6 + 1)), rel=1e-12)


def test_bounds() -> None:
    full, partial = bound_full(SCHEDULE, SETTING, 1e-5), bound_partial(SCHEDULE, SETTING, 1e-5)
    assert full.leading == partial.leading == pytest.approx(87.843, abs=5e-4)
    assert (full.noise, full.spread) == pytest.approx((2.02131e-4, 1.41176e-7), rel=5e-6)
    assert (partial.noise, partial.spread) == pytest.approx((4.07281e-3, 5.86238e-2), rel=5e-6)
    assert sampling_factor(SCHEDULE, SETTING) == pytest.approx(2036.40, abs=5e-3)
    weighed = replace(SETTING, noise=2.0, spread=3.0)
    assert full.total(weighed) == full.leading + 2 * full.noise + 3 * full.spread


def test_all_clients_sampled_leaves_no_sampling_error() -> None:
    """M = N: the terms with N - M vanish, only drift is left in Psi_g."""
    all_clients = replace(SETTING, per_round=100)
    assert bound_partial(SCHEDULE, all_clients, 1e-3).spread == bound_full(SCHEDULE, all_clients, 1e-3).spread


def test_one_client_per_round_has_no_pair_condition() -> None:
    """M = 1: the first of the two is infinite, 17 / 282 rules."""
    alone = replace(SETTING, per_round=1)
    slope = 3 * 5 * 4 * (1 + 7 / 6)
    assert limit_partial(PLAIN, alone) == pytest.approx(17 / 282 / slope, rel=1e-12)


def test_bound_of_autonomous_clients_term_by_term() -> None:
    """One stage of plain averaging, L = lr = M = 1, T = 100, s = 2, K = (1, 3): T / W2 = 1."""
    schedule = Schedule.of(Stages(((100, Momentum(1.0)),)))
    setting = Setting(smoothness=1.0, clients=4, steps=3, per_round=1)
    found = bound_autonomous(schedule, setting, 0.1, delay=2, steps=(1, 3))
    assert found.leading == pytest.approx(4 / (100 * 0.1), rel=1e-12)
    assert found.noise == pytest.approx(
        20 * 0.01 * 2 + (4 * 4 * 0.01 + 2 * 0.1 + 2 * 0.1) * (2 / 3), rel=1e-12
    )
    assert found.spread == pytest.approx(120 * 0.01 * 5, rel=1e-12)
    anyhow = bound_autonomous(schedule, setting, 0.1, delay=2, steps=(1, 3), any_arrival=True)
    assert anyhow.spread == pytest.approx(180 * 0.01 * 5 + 6, rel=1e-12)
    assert anyhow.noise == pytest.approx(30 * 0.01 * 2 + (6 * 4 * 0.01 + 0.4) * (2 / 3), rel=1e-12)


def test_bad_input_is_named() -> None:
    with pytest.raises(ConfigError, match="stages must be of Momentum"):
        Schedule.of(Stages(((1, Adam(0.1)),)))
    with pytest.raises(ConfigError, match="clients per round must be between 1 and the 100 clients; got 101"):
        replace(SETTING, per_round=101)
    with pytest.raises(ConfigError, match="smoothness must be > 0; got 0"):
        replace(SETTING, smoothness=0)
