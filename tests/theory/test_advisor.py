"""Every number says what it is, and is the formula's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fedpace.errors import ConfigError
from fedpace.local import SGD
from fedpace.server_opt import Adam, Momentum, Stages
from fedpace.theory import Work, advisor, momentum_bounds, multistage, nova_bounds
from fedpace.theory.momentum_bounds import Schedule
from fedpace.theory.setting import EXACT, ORDER, STABILITY, SUFFICIENT, UPPER, Setting, StatedQuantity

WORK = Work.of(SGD(0.1, steps=1), (2, 5, 9), (0.5, 0.3, 0.2))
SETTING = Setting(smoothness=2.0, clients=3, steps=9, noise=0.5, spread=4.0, gap=3.0)
STAGES = multistage((2, 1, 0.5), 1000, 0.9, 0.9)


def by_name(quantities: tuple[StatedQuantity, ...], start: str) -> StatedQuantity:
    (found,) = [figure for figure in quantities if figure.name.startswith(start)]
    return found


def test_every_figure_has_a_label_and_a_source() -> None:
    groups = (
        advisor.bias(WORK, SETTING),
        advisor.normalised(WORK, SETTING, 0.02, 100),
        advisor.server_momentum(STAGES, SETTING, 1e-5),
        advisor.server_momentum(STAGES, SETTING, 1e-5, delay=4, steps=(2, 5, 9)),
    )
    quantities = [figure for group in groups for figure in group]
    assert {figure.label for figure in quantities} == {EXACT, SUFFICIENT, UPPER, ORDER, STABILITY}
    assert all(figure.source and figure.name for figure in quantities)


def test_bias() -> None:
    quantities = advisor.bias(WORK, SETTING)
    assert by_name(quantities, "chi-squared") == replace(
        by_name(quantities, "chi-squared"), value=WORK.chi2, label=EXACT
    )
    assert by_name(quantities, "largest").value == pytest.approx(9 / 4.3, rel=1e-12)
    assert by_name(quantities, "smallest").value == pytest.approx(2 / 4.3, rel=1e-12)
    left = by_name(quantities, "error floor")
    assert (left.value, left.label) == (pytest.approx(2 * WORK.chi2 * 4.0, rel=1e-12), UPPER)


def test_a_client_without_a_share_has_no_ratio() -> None:
    quantities = advisor.bias(Work.of(SGD(0.1, steps=1), (1, 3), (1.0, 0.0)), SETTING)
    assert by_name(quantities, "largest").value == by_name(quantities, "smallest").value == 1.0


@pytest.mark.parametrize("draws", [None, 2])
def test_normalised_uses_the_problem(draws: int | None) -> None:
    setting = replace(SETTING, per_round=draws)
    quantities = advisor.normalised(WORK, setting, 0.005, 100)
    problem = {"smoothness": 2.0, "sigma2": 0.5, "kappa2": 4.0, "gap": 3.0}
    if draws is None:
        limit, bound = nova_bounds.limit(WORK, 2.0), nova_bounds.bound(WORK, 0.005, 100, **problem)
    else:
        limit = nova_bounds.sampled_limit(WORK, 2, 2.0)
        bound = nova_bounds.sampled_bound(WORK, 0.005, 100, 2, **problem)
    assert by_name(quantities, "client_lr up to").value == limit
    shown = by_name(quantities, "mean squared gradient")
    assert (shown.name, shown.value) == ("mean squared gradient after 100 rounds", bound.total)
    assert ("drawn by share, tau_eff of the population" in shown.source) == (draws == 2)


def test_a_bound_is_shown_where_it_is_claimed() -> None:
    """At a rate above the condition: the bound at the condition itself, and the name says so."""
    quantities = advisor.normalised(WORK, SETTING, 0.5, 100)
    limit = nova_bounds.limit(WORK, 2.0)
    shown = by_name(quantities, "mean squared gradient")
    problem = {"smoothness": 2.0, "sigma2": 0.5, "kappa2": 4.0, "gap": 3.0}
    assert shown.value == nova_bounds.bound(WORK, limit, 100, **problem).total
    assert shown.name == f"mean squared gradient after 100 rounds at client_lr {limit:.3g}"


def test_the_best_proximal_strength_does_not_depend_on_the_current_one() -> None:
    """Cor. 2 and C.8 have the mean of steps: 16 clients, K = 100, T = 100, rate .04, alpha* .234, whatever prox_mu."""
    for mu in (0.0, 0.5, 5.0):
        work = Work.of(SGD(0.04, steps=1, prox_mu=mu), [100] * 16)
        quantities = advisor.normalised(work, Setting(1.0, 16, 100), 0.04, 100)
        assert by_name(quantities, "client_lr with the best rate").value == pytest.approx(0.04, rel=1e-12)
        assert by_name(quantities, "client_lr * prox_mu").value == pytest.approx(0.234, abs=5e-4)


@pytest.mark.parametrize("per_round", [None, 2])
def test_server_momentum_picks_the_theorem(per_round: int | None) -> None:
    setting, schedule = replace(SETTING, per_round=per_round), Schedule.of(STAGES)
    quantities = advisor.server_momentum(STAGES, setting, 1e-9)
    limit, bound = by_name(quantities, "client_lr up to"), by_name(quantities, "mean squared gradient")
    if per_round is None:
        expected = momentum_bounds.limit_full(schedule, setting)
        total = momentum_bounds.bound_full(schedule, setting, 1e-9).total(setting)
    else:
        expected = momentum_bounds.limit_partial(schedule, setting)
        total = momentum_bounds.bound_partial(schedule, setting, 1e-9).total(setting)
    assert (limit.value, limit.label, bound.value, bound.label) == (expected, SUFFICIENT, total, UPPER)
    assert ("4.1" if per_round is None else "4.6") in limit.source


def test_delay_enters_the_stability_that_is_shown() -> None:
    one = Stages(((100, Momentum(1.0, 0.95, 0.7)),))
    assert by_name(advisor.server_momentum(one, SETTING, 1e-5), "server_lr times c").value == pytest.approx(
        6.29, abs=5e-3
    )
    late = by_name(advisor.server_momentum(one, SETTING, 1e-5, delay=4), "server_lr times c")
    assert (late.value, late.label) == (pytest.approx(2.31, abs=5e-3), STABILITY)
    assert advisor.stage_rows(one, 10)[0].stability == pytest.approx(0.81, abs=5e-3)


def test_stage_table() -> None:
    rows = advisor.stage_rows(STAGES)
    assert [(row.first, row.last) for row in rows] == [(1, 143), (144, 429), (430, 1000)]
    assert [row.w2 for row in rows] == [286, 286, 285.5]
    assert [row.w1 for row in rows] == pytest.approx([16.2] * 3, rel=1e-12)
    assert rows[0].mean_age == pytest.approx(8.1, rel=1e-12)
    assert rows[0].stability == pytest.approx(13.571429, abs=5e-7)
    assert [row.rule for row in rows] == [rule for rule in STAGES.rules if isinstance(rule, Momentum)]
    with pytest.raises(ConfigError, match="stages must be of Momentum"):
        advisor.stage_rows(Stages(((1, Adam(0.1)),)))


def test_work_drawn_anew_is_its_expectation() -> None:
    """K_i = n_i e with e = 1 or 3: on average 2 n_i, as if e were always 2 (plain steps are linear)."""
    local = SGD(0.1, steps=1)
    drawn = Work.drawn(local, [(2, 5), (6, 15)])
    always = Work.of(local, (4, 10))
    assert drawn.steps.tolist() == [4, 10]
    assert (drawn.tau_eff, drawn.chi2) == pytest.approx((always.tau_eff, always.chi2), rel=1e-12)


def test_theorem_5_1_wants_moments_of_the_draws() -> None:
    """K = 2 or 6 with the same chance: phi_2 = 20 and phi_3 = 1/3, not 16 and 1/4; K_max is 6."""
    one = Stages(((100, Momentum(1.0)),))
    setting = Setting(1.0, 4, 6, 2, noise=1.0, spread=0.0)
    drawn = advisor.server_momentum(one, setting, 1e-4, 3, steps=(2, 6))
    schedule = Schedule.of(one)
    noise = momentum_bounds.bound_autonomous(schedule, setting, 1e-4, 3, (2, 6)).noise
    by_hand = 20e-8 * 4 + (4 * 9e-8 + 2e-4 * 2) * (1 / 3) / 2
    assert noise == pytest.approx(by_hand, rel=1e-12)
    spread = momentum_bounds.bound_autonomous(schedule, setting, 1e-4, 3, (2, 6)).spread
    assert spread == pytest.approx(120e-8 * 20, rel=1e-12)
    assert by_name(drawn, "mean squared gradient, uniform").value == pytest.approx(4 / (100 * 1e-4) + by_hand)
    assert momentum_bounds.limits_autonomous(schedule, setting, 3)[0] == 1 / 48
