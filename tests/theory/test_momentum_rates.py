"""The settings of Corollaries 4.2, 4.4, 4.7 and 5.2, Remark 5.3, and what they give."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from fedpace.errors import ConfigError
from fedpace.server_opt import Momentum, Stages
from fedpace.theory import Setting, momentum_bounds, multistage
from fedpace.theory import momentum_rates as rates
from fedpace.theory.momentum_bounds import Schedule

FULL = Setting(1.0, 25, 4)  # √(NK) = 10
PART = replace(FULL, per_round=9)  # √(MK) = 6


def test_corollary_4_4_by_hand() -> None:
    """T = 400, S = 2: eta 10, eta_l = 1/80, W2 = 2000, W1² = 5, rate 1/200 from T = 100 on."""
    found = rates.synchronous(FULL, 400, 2)
    assert (found.server_lr, found.client_lr, found.w2) == pytest.approx((10, 1 / 80, 2000), rel=1e-12)
    assert (found.max_w1**2, found.rate, found.min_rounds) == pytest.approx((5, 1 / 200, 100), rel=1e-12)


def test_corollary_4_7_by_hand() -> None:
    """M = 9: √(K/(TM)) = 1/30, W1² = 6."""
    found = rates.synchronous(PART, 400)
    assert (found.server_lr, found.rate, found.max_w1**2) == pytest.approx((6, 1 / 30, 6), rel=1e-12)


def test_corollary_5_2_and_remark_5_3_by_hand() -> None:
    """s = 3: 1/√(9·4·400) + 9/400 + 16/400; T >= M K^5 = 9216, s <= (400/36)^(1/4)."""
    found = rates.autonomous(PART, 400, 3)
    assert found.client_lr == pytest.approx(1 / 20, rel=1e-12)
    assert found.rate == pytest.approx(1 / 120 + 25 / 400, rel=1e-12)
    assert found.min_rounds == 9 * 4**5
    assert rates.manageable_delay(PART, 400) == pytest.approx(math.pow(400 / 36, 0.25), rel=1e-12)


@pytest.mark.parametrize("setting", [FULL, PART])
def test_the_bound_falls_at_the_rate_of_the_corollary(setting: Setting) -> None:
    """Multistage FedAvg (4.2) at the preset: 100 times the rounds, a tenth of the bound."""

    def at(rounds: int) -> float:
        preset = rates.synchronous(setting, rounds)
        schedule = Schedule.of(Stages(((rounds, Momentum(preset.server_lr)),)))
        bound = momentum_bounds.bound_partial if setting.sampled else momentum_bounds.bound_full
        return bound(schedule, setting, preset.client_lr).total(setting)

    assert at(10**8) / at(10**10) == pytest.approx(10, rel=0.01)


def test_stages_that_keep_the_largest_w1_keep_the_rate() -> None:
    """Corollary 4.4: at W1² = √(NK)/S momentum adds a term of the same order and no more."""
    preset = rates.synchronous(FULL, 10**8, 3)
    scale = preset.server_lr / (3.5 / 3)
    nu = preset.max_w1 / (2 * scale * 9)  # W1 = eta_1 beta nu / (1 - beta) at beta = .9
    staged = Schedule.of(multistage([2 * scale, scale, scale / 2], 10**8, 0.9, nu))
    plain = Schedule.of(multistage([2 * scale, scale, scale / 2], 10**8, 0.0, 0.0))
    assert staged.w1 == pytest.approx(preset.max_w1, rel=1e-9)
    with_momentum = momentum_bounds.bound_full(staged, FULL, preset.client_lr).total(FULL)
    without = momentum_bounds.bound_full(plain, FULL, preset.client_lr).total(FULL)
    assert 1 < with_momentum / without < 2


def test_skewed_arrivals() -> None:
    assert rates.skewed_arrival([1.0, 1.0, 1.0]) == pytest.approx(0, abs=1e-15)
    assert rates.skewed_arrival([3.0, 1.0]) == pytest.approx(2 * 2 * 0.0625, rel=1e-12)
    assert rates.skewed_arrival([1.0, 0.0, 0.0, 0.0]) == pytest.approx(3, rel=1e-12)
    with pytest.raises(ConfigError, match="shares must be >= 0, not all 0"):
        rates.skewed_arrival([0.0, 0.0])
