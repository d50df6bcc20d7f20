"""Stages of server momentum that fulfil the constraints of Sun et al., AAAI 2024, Eq. (3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate

import numpy as np

from fedpace import logs
from fedpace.errors import ConfigError, require, require_count, require_number
from fedpace.server_opt import Momentum, Stages

COUPLINGS = ("nu", "nag", "beta")


class ScheduleWarning(UserWarning):
    """A schedule runs, but the theory does not cover it."""


def multistage(
    lrs: Sequence[float],
    rounds: int,
    beta: float,
    nu: float | None = None,
    couple: str = "nu",
    *,
    anchor: int = 0,
    strict: bool = False,
) -> Stages:
    """The stages that `lrs`, one (beta, nu) and a coupling rule leave no choice about.

    Sun et al., "On the Role of Server Momentum in Federated Learning", AAAI 2024, Eq. (3): in all stages
    W1 = η_s β_s ν_s / (1 − β_s) and W2 = T_s η_s are the same, η falls and β grows. Hence the lengths
    T_s ∝ 1/η_s (their running sums are rounded, not they), and from (beta, nu) at stage `anchor` (an index,
    -1 is the last) the other stages by one of

        couple="nu"     ν constant          β_s = W1 / (W1 + η_s ν)
        couple="nag"    ν_s = β_s           β_s = 2c / (c + √(c² + 4c)),  c = W1 / η_s
        couple="beta"   β constant          ν_s = W1 (1 − β) / (η_s β), refused above 1

    W1 = 0 (beta or nu is 0) keeps both: multistage FedAvg. What `violations` finds is a warning, or with
    `strict` an error.
    """
    _check(lrs, rounds, couple, anchor)
    lrs = [float(lr) for lr in lrs]
    if couple == "nag":
        require(nu is None or nu == beta, "nu", nu, "left out or equal to beta when couple is 'nag'")
        nu = beta
    require(nu is not None, "nu", nu, f"given when couple is {couple!r}")
    at_anchor = Momentum(lrs[anchor], beta, 0.0 if nu is None else nu)
    pairs = [_coupled(at_anchor, lr, couple) for lr in lrs]
    rules = [Momentum(lr, b, n) for lr, (b, n) in zip(lrs, pairs, strict=True)]
    stages = Stages(tuple(zip(lengths(lrs, rounds), rules, strict=True)))
    check(stages, strict=strict)
    return stages


def lengths(lrs: Sequence[float], rounds: int) -> tuple[int, ...]:
    """T_s ∝ 1/η_s: the running sums rounded half up, in exact arithmetic."""
    inverse = [1 / Fraction(lr) for lr in lrs]
    ends = [math.floor(rounds * part / sum(inverse) + Fraction(1, 2)) for part in accumulate(inverse)]
    found = tuple(end - start for start, end in zip([0, *ends], ends, strict=False))
    if min(found) < 1:
        raise ConfigError(f"rounds must leave every stage at least one; got {rounds}, which makes {found}")
    return found


def w1(rule: Momentum) -> float:
    """η β ν / (1 − β): the distance between the model and the path z_t = x_t + W1 b_t, in buffers."""
    return rule.lr * rule.beta * rule.nu / (1 - rule.beta)


def check(stages: Stages, *, strict: bool = False) -> None:
    """Warn of what the theory asks for and `stages` lacks; raise if `strict`."""
    found = violations(stages)
    if found and strict:
        raise ConfigError("stages must keep the constraints of multistage FedGM; got " + "; ".join(found))
    for violation in found:
        logs.warn(violation, ScheduleWarning, stacklevel=3)


def violations(stages: Stages) -> tuple[str, ...]:
    """Which of the constraints of Eq. (3) these stages break, in words."""
    rules = [rule for rule in stages.rules if isinstance(rule, Momentum)]
    if len(rules) != len(stages.rules):
        return ("the constraints are about Momentum stages",)
    lrs, betas, gains = [r.lr for r in rules], [r.beta for r in rules], [w1(r) for r in rules]
    counts = [rounds for rounds, _ in stages.stages]
    w2 = sum(counts) / math.fsum(1 / lr for lr in lrs)
    broken = {
        f"learning rates should not grow from stage to stage; got {lrs}": sorted(lrs, reverse=True) != lrs,
        f"beta should not fall from stage to stage; got {betas}": sorted(betas) != betas,
        f"W1 = lr beta nu / (1 - beta) should be the same in all stages; got {gains}": (
            max(gains) - min(gains) > 1e-9 * max(gains) + 1e-300  # denormal numbers have no nine digits
        ),
        f"rounds times lr should be the same in all stages; got rounds {counts} for {lrs}": any(
            abs(rounds * lr - w2) > lr for rounds, lr in zip(counts, lrs, strict=True)
        ),
    }
    return tuple(text for text, is_broken in broken.items() if is_broken)


def _coupled(anchor: Momentum, lr: float, couple: str) -> tuple[float, float]:
    """(β_s, ν_s) of the stage with rate `lr`."""
    gain, beta, nu = w1(anchor), anchor.beta, anchor.nu
    if gain == 0 or lr == anchor.lr:
        return beta, nu
    if couple == "nu":
        return gain / (gain + lr * nu), nu
    if couple == "nag":
        c = gain / lr
        beta = 2 * c / (c + math.sqrt(c * c + 4 * c))
        return beta, beta
    nu = nu * anchor.lr / lr  # W1 (1 - beta) / (lr beta), without its rounding
    require_number(
        nu, f"nu of the stage with rate {lr}", high=1, allowed="<= 1; lower nu, or anchor it later"
    )
    return beta, nu


def _check(lrs: Sequence[float], rounds: int, couple: str, anchor: int) -> None:
    several = isinstance(lrs, Sequence | np.ndarray) and len(lrs) > 0
    require(several, "lrs", lrs, "at least one learning rate")
    for lr in lrs:
        require_number(lr, "lrs", above=0, below=math.inf, allowed="learning rates > 0")
    require_count(rounds, "rounds")
    require(couple in COUPLINGS, "couple", couple, ", ".join(COUPLINGS))
    require(-len(lrs) <= anchor < len(lrs), "anchor", anchor, f"a stage's index, below {len(lrs)}")
