"""The numbers worth knowing before a run, each with its standing and where it comes from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from fedpace.errors import require
from fedpace.server_opt import Momentum, Stages
from fedpace.theory import momentum_bounds as momentum
from fedpace.theory import nova_bounds as nova
from fedpace.theory.averaging import mean_age, stability_limit, variance_factor
from fedpace.theory.figure import EXACT, ORDER, SUFFICIENT, UPPER, Figure
from fedpace.theory.inconsistency import Work, final_error
from fedpace.theory.momentum_bounds import Schedule, Setting
from fedpace.theory.multistage import w1

WANG, SUN = "Wang et al. 2020", "Sun et al. 2024"


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
    stability: float  # limit of lr c on a quadratic; 2 without momentum

    @classmethod
    def of(cls, first: int, last: int, rule: Momentum) -> Self:
        beta, nu = rule.beta, rule.nu
        return cls(
            first,
            last,
            rule,
            w1(rule),
            (last - first + 1) * rule.lr,
            mean_age(beta, nu),
            variance_factor(beta, nu),
            stability_limit(beta, nu),
        )


def stage_rows(stages: Stages) -> tuple[StageRow, ...]:
    """The stage table."""
    starts = (0, *stages.ends)
    rules = [rule for rule in stages.rules if isinstance(rule, Momentum)]
    require(len(rules) == len(stages.rules), "stages", stages, "of Momentum")
    return tuple(
        StageRow.of(start + 1, end, rule)
        for start, end, rule in zip(starts, stages.ends, rules, strict=False)
    )


def bias(work: Work, setting: Setting) -> tuple[Figure, ...]:
    """How far plain averaging is from the objective it is meant for."""
    ratio = work.ratio[work.p > 0]
    return (
        Figure("tau_eff, gradients a round is worth", work.tau_eff, EXACT, f"{WANG}, section 4"),
        Figure("chi-squared of shares p and plain weights w", work.chi2, EXACT, f"{WANG}, Theorem 2"),
        Figure(
            "share of the objective that goes astray", work.misplaced, EXACT, "half of the sum of |p - w|"
        ),
        Figure("largest w / p of a client", float(ratio.max()), EXACT, f"{WANG}, Theorem 1"),
        Figure("smallest w / p of a client", float(ratio.min()), EXACT, f"{WANG}, Theorem 1"),
        Figure(
            "squared gradient left for ever",
            final_error(work.chi2, 0.0, kappa2=setting.spread),
            UPPER,
            f"{WANG}, Theorem 2",
        ),
    )


def normalised(work: Work, setting: Setting, client_lr: float, rounds: int) -> tuple[Figure, ...]:
    """Limits and bounds of FedNova for this work."""
    smooth, sampled = setting.smoothness, setting.m < setting.clients
    problem: dict[str, Any] = {
        "smoothness": smooth,
        "sigma2": setting.noise,
        "kappa2": setting.spread,
        "gap": setting.gap,
    }
    size = setting.m if sampled else work.clients
    mean_steps = float(work.norm1.mean())
    highest = nova.sampled_limit(work, setting.m, smooth) if sampled else nova.limit(work, smooth)
    terms = (
        nova.sampled_bound(work, client_lr, rounds, setting.m, **problem)
        if sampled
        else nova.bound(work, client_lr, rounds, **problem)
    )
    where = f"{WANG}, (182)" if sampled else f"{WANG}, (96)"
    return (
        Figure("A, noise that averaging leaves", work.a(work.p), EXACT, f"{WANG}, Theorem 1"),
        Figure("B, noise through drift", work.b(work.p), EXACT, f"{WANG}, Theorem 1"),
        Figure("C, drift", work.c, EXACT, f"{WANG}, Theorem 1"),
        Figure("client_lr up to which the bound holds", highest, SUFFICIENT, where),
        Figure(f"mean squared gradient after {rounds} rounds", terms.total, UPPER, where),
        Figure("client_lr with the best rate", nova.rate_optimal_lr(size, mean_steps, rounds), ORDER, WANG),
        Figure(
            "client_lr * prox_mu with the best rate",
            nova.best_proximal(size, mean_steps, rounds),
            ORDER,
            f"{WANG}, Cor. 2",
        ),
    )


def server_momentum(
    stages: Stages, setting: Setting, client_lr: float, delay: float | None = None, steps: Sequence[int] = ()
) -> tuple[Figure, ...]:
    """Limits and bounds of (multistage, with a delay autonomous) FedGM."""
    schedule = Schedule.of(stages)
    if delay is not None:
        return _autonomous(schedule, setting, client_lr, delay, steps or (round(setting.steps),))
    sampled = setting.m < setting.clients
    where = f"{SUN}, Theorem {'4.6' if sampled else '4.1'}"
    limit = momentum.limit_partial if sampled else momentum.limit_full
    bound = momentum.bound_partial if sampled else momentum.bound_full
    return (
        Figure("client_lr up to which the bound holds", limit(schedule, setting), SUFFICIENT, where),
        Figure("mean squared gradient", bound(schedule, setting, client_lr).total(setting), UPPER, where),
    )


def _autonomous(
    schedule: Schedule, setting: Setting, client_lr: float, delay: float, steps: Sequence[int]
) -> tuple[Figure, ...]:
    where = f"{SUN}, Theorem 5.1"
    figures = []
    for any_arrival, who in ((False, "uniform arrivals"), (True, "any arrivals")):
        highest = min(momentum.limits_autonomous(schedule, setting, delay, any_arrival=any_arrival))
        bound = momentum.bound_autonomous(schedule, setting, client_lr, delay, steps, any_arrival=any_arrival)
        figures += [
            Figure(f"client_lr up to which the bound holds, {who}", highest, SUFFICIENT, where),
            Figure(f"mean squared gradient, {who}", bound.total(setting), UPPER, where),
        ]
    return tuple(figures)
