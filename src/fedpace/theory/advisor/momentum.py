"""Server momentum: the stage table, stability, limits and bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from fedpace.errors import require
from fedpace.server_opt import Momentum, Stages
from fedpace.theory import momentum_bounds as bounds
from fedpace.theory import momentum_rates as rates
from fedpace.theory.averaging import mean_age, variance_factor
from fedpace.theory.momentum_bounds import Schedule
from fedpace.theory.multistage import w1
from fedpace.theory.setting import ORDER, STABILITY, SUFFICIENT, UPPER, Setting, StatedQuantity, rate_held
from fedpace.theory.stability import Delays, stability_limit

SUN = "Sun et al. 2024"


@dataclass(frozen=True, slots=True)
class StageRow:
    """One stage of server momentum; everything here is exact."""

    first: int  # its first round, counted from 1
    last: int
    rule: Momentum
    w1: float  # lr beta nu / (1 - beta), equal in all stages of a schedule by the paper
    w2: float  # rounds times lr, equal up to rounding
    mean_age: float  # steps by which the direction lags
    variance: float  # of the direction, for independent updates of variance 1
    stability: float  # limit of lr c on a quadratic; 2 without momentum and delay

    @classmethod
    def of(cls, first: int, last: int, rule: Momentum, delays: Delays = 1) -> Self:
        beta, nu = rule.beta, rule.nu
        return cls(
            first,
            last,
            rule,
            w1(rule),
            (last - first + 1) * rule.lr,
            mean_age(beta, nu),
            variance_factor(beta, nu),
            stability_limit(beta, nu, delays),
        )


def stage_rows(stages: Stages, delays: Delays = 1) -> tuple[StageRow, ...]:
    """The stage table; with delays (R: uniform on 0..R-1, or probabilities) stability is that of the mean model."""
    starts = (0, *stages.ends)
    rules = [rule for rule in stages.rules if isinstance(rule, Momentum)]
    require(len(rules) == len(stages.rules), "stages", stages, "of Momentum")
    return tuple(
        StageRow.of(start + 1, end, rule, delays)
        for start, end, rule in zip(starts, stages.ends, rules, strict=False)
    )


def server_momentum(
    stages: Stages,
    setting: Setting,
    client_lr: float,
    delay: int | None = None,
    steps: Sequence[float] = (),
    delays: Delays | None = None,
) -> tuple[StatedQuantity, ...]:
    """Limits and bounds of (multistage, with a largest delay autonomous) FedGM.

    `delays` is their distribution, uniform on 0..delay where nothing is said; `steps` are the K of the updates that
    arrive, over clients and draws.
    """
    schedule = Schedule.of(stages)
    if delay is not None:
        arriving = steps or (setting.steps,)
        spread: Delays = delay + 1 if delays is None else delays
        return (
            _stability(stages, spread),
            *_autonomous(schedule, setting, client_lr, delay, arriving),
        )
    where = f"{SUN}, Theorem {'4.6' if setting.sampled else '4.1'}"
    limit = bounds.limit_partial if setting.sampled else bounds.limit_full
    bound = bounds.bound_partial if setting.sampled else bounds.bound_full
    highest = limit(schedule, setting)
    rate, at = rate_held(client_lr, highest)
    preset = rates.synchronous(setting, schedule.rounds, schedule.stages)
    source = f"{SUN}, Corollary {'4.7' if setting.sampled else '4.4'}"
    return (
        _stability(stages, 1),
        StatedQuantity("client_lr up to which the bound holds", highest, SUFFICIENT, where),
        StatedQuantity(
            f"mean squared gradient{at}", bound(schedule, setting, rate).total(setting), UPPER, where
        ),
        *_orders(preset, source),
    )


def _stability(stages: Stages, delays: Delays) -> StatedQuantity:
    lowest = min(row.stability for row in stage_rows(stages, delays))
    return StatedQuantity(
        "server_lr times c, stable below", lowest, STABILITY, "spectral radius 1 on a quadratic"
    )


def _orders(preset: rates.Preset, source: str) -> tuple[StatedQuantity, ...]:
    return (
        StatedQuantity("mean server_lr with the best rate", preset.server_lr, ORDER, source),
        StatedQuantity("client_lr with the best rate", preset.client_lr, ORDER, source),
        StatedQuantity("largest W1 = lr beta nu / (1 - beta)", preset.max_w1, ORDER, source),
        StatedQuantity("rate at these", preset.rate, ORDER, source),
        StatedQuantity("rounds from which it holds", preset.min_rounds, ORDER, source),
    )


def _autonomous(
    schedule: Schedule, setting: Setting, client_lr: float, delay: int, steps: Sequence[float]
) -> tuple[StatedQuantity, ...]:
    quantities = []
    for any_arrival, which in ((False, "uniform arrivals"), (True, "any arrivals")):
        where = f"{SUN}, {'Corollary 5.4 (G.1)' if any_arrival else 'Theorem 5.1'}"
        highest = min(bounds.limits_autonomous(schedule, setting, delay, any_arrival=any_arrival))
        rate, at = rate_held(client_lr, highest)
        bound = bounds.bound_autonomous(schedule, setting, rate, delay, steps, any_arrival=any_arrival)
        quantities += [
            StatedQuantity(f"client_lr up to which the bound holds, {which}", highest, SUFFICIENT, where),
            StatedQuantity(f"mean squared gradient, {which}{at}", bound.total(setting), UPPER, where),
        ]
    preset = rates.autonomous(setting, schedule.rounds, delay, schedule.stages)
    manageable = rates.manageable_delay(setting, schedule.rounds)
    return (
        *quantities,
        StatedQuantity(
            "of which error floor without uniform arrivals",
            6 * setting.spread,
            UPPER,
            f"{SUN}, Corollary 5.4",
        ),
        *_orders(preset, f"{SUN}, Corollary 5.2"),
        StatedQuantity("largest delay that keeps the rate", manageable, ORDER, f"{SUN}, Remark 5.3"),
    )
