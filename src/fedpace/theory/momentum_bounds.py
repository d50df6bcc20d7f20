"""Learning-rate limits and convergence bounds of multistage FedGM.

Sun et al., "On the Role of Server Momentum in Federated Learning", AAAI 2024, Theorems 4.1, 4.6 and 5.1, with
the misprints corrected: S W2 η_l K under F_0 in Thm 4.6 and L² for its L³; the condition and the term that
Thm 5.1 leaves out of its statement; max(s, 1) for its delay s.

Limits are *sufficient* and usually far below what works: they advise, they never refuse. Bounds are *upper
bounds* on the squared gradient norm, averaged within stages, then over stages.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from fedpace.errors import require
from fedpace.server_opt import Momentum, Stages
from fedpace.theory.multistage import w1
from fedpace.theory.setting import Setting


@dataclass(frozen=True, slots=True)
class Schedule:
    """What the theorems need to know of a multistage schedule; means are over stages, not over rounds."""

    rounds: int  # T
    stages: int  # S
    w1: float  # η β ν / (1 − β), the largest where it is not constant
    w2: float  # T / Σ 1/η_s
    lr: float  # mean of η_s
    lr2: float  # mean of η_s²
    lr3: float  # mean of η_s³
    c: float  # η_1 / η_S
    c_beta: float  # (1 − β_1) / (1 − β_S)

    @classmethod
    def of(cls, stages: Stages) -> Self:
        rules = [rule for rule in stages.rules if isinstance(rule, Momentum)]
        require(len(rules) == len(stages.rules), "stages", stages, "of Momentum")
        lrs, rounds = [rule.lr for rule in rules], stages.ends[-1]
        return cls(
            rounds=rounds,
            stages=len(rules),
            w1=max(w1(rule) for rule in rules),
            w2=rounds / math.fsum(1 / lr for lr in lrs),
            lr=_mean(lrs),
            lr2=_mean([lr**2 for lr in lrs]),
            lr3=_mean([lr**3 for lr in lrs]),
            c=lrs[0] / lrs[-1],
            c_beta=(1 - rules[0].beta) / (1 - rules[-1].beta),
        )


@dataclass(frozen=True, slots=True)
class Bound:
    """leading + noise σ_l² + spread σ_g²."""

    leading: float  # the term with F_0
    noise: float  # Psi_l
    spread: float  # Psi_g

    def total(self, setting: Setting) -> float:
        return self.leading + self.noise * setting.noise + self.spread * setting.spread


def limit_full(schedule: Schedule, setting: Setting) -> float:
    """η_l up to which Theorem 4.1 holds: every client takes part."""
    s, smooth, k = schedule, setting.smoothness, setting.steps
    curved = k * s.stages * s.c * (smooth * s.lr + 1 + (smooth * s.w1) ** 2 * s.c)
    return min(1 / (8 * k * smooth), 1 / curved)


def limit_partial(schedule: Schedule, setting: Setting) -> float:
    """η_l up to which Theorem 4.6 holds: M of N clients take part."""
    s, smooth, k, n, m = schedule, setting.smoothness, setting.steps, setting.clients, setting.m
    sampled = math.inf if m == 1 else m * (n - 1) / (n * (m - 1))
    slope = s.stages * k * s.c * (1 + smooth * s.lr + (smooth * s.w1) ** 2)
    return min(1 / (8 * k * smooth), min(sampled, 17 * m / 282) / slope)


def limits_autonomous(
    schedule: Schedule, setting: Setting, delay: float, *, any_arrival: bool = False
) -> tuple[float, float, float]:
    """The three conditions of Theorem 5.1 on η_l; with `any_arrival` those of its form for clients that do
    not arrive uniformly."""
    s, smooth, k = schedule, setting.smoothness, setting.steps
    stale = (smooth * delay) ** 2 * s.lr2 * s.c**2 * s.stages
    slope = s.c * s.stages * ((smooth * s.w1) ** 2 * s.c + smooth * s.lr + 1)
    share = 1.0 if any_arrival else setting.m / setting.clients
    factor, square = (180, 3 * stale) if any_arrival else (120, 2 * stale)
    second = math.sqrt(1 / (factor * smooth**2 * s.c * max(delay, 1) * k**2))
    return 1 / (8 * k * smooth), second, _positive_root(square, slope, share)


def bound_full(schedule: Schedule, setting: Setting, client_lr: float) -> Bound:
    """Theorem 4.1."""
    s, smooth, k, n, lr = schedule, setting.smoothness, setting.steps, setting.clients, client_lr
    momentum = (smooth * s.w1) ** 2 * s.rounds * s.lr / s.w2
    noise = 32 / 17 * lr / n * (momentum + smooth * s.lr + 1) + 160 / 17 * (lr * smooth) ** 2 * k
    return Bound(_leading(s, setting, lr), noise, 960 / 17 * (lr * smooth * k) ** 2)


def bound_partial(schedule: Schedule, setting: Setting, client_lr: float) -> Bound:
    """Theorem 4.6."""
    s, smooth, k, lr = schedule, setting.smoothness, setting.steps, client_lr
    phi = sampling_factor(s, setting)
    drift = (k * smooth) ** 2 * lr**3 * setting.left_out * phi
    noise = lr * phi / setting.m + 15 * drift + 160 / 17 * (lr * smooth) ** 2 * k
    spread = 90 * k * drift + 3 * lr * setting.left_out * k * phi + 960 / 17 * (lr * smooth * k) ** 2
    return Bound(_leading(s, setting, lr), noise, spread)


def sampling_factor(schedule: Schedule, setting: Setting) -> float:
    """Φ of Theorem 4.6."""
    s, smooth = schedule, setting.smoothness
    return 32 * s.rounds * (s.lr + smooth * s.lr2 + (smooth * s.w1) ** 2 * s.lr) / (17 * s.w2)


def bound_autonomous(
    schedule: Schedule,
    setting: Setting,
    client_lr: float,
    delay: float,
    steps: Sequence[float],
    *,
    any_arrival: bool = False,
) -> Bound:
    """Theorem 5.1; with `any_arrival` Corollary G.1 (5.4), whose 6 σ_g² no learning rate removes.

    `steps` are the K of the updates that arrive, over clients and draws: φ_1, φ_2 and φ_3 are the means of K, K²
    and 1/K, which for drawn work are not those of the mean K.
    """
    s, smooth, m, lr = schedule, setting.smoothness, setting.m, client_lr
    k1, k2, inverse = _mean(steps), _mean([k**2 for k in steps]), _mean([1 / k for k in steps])
    local, stale, far = (30, 6, 180) if any_arrival else (20, 4, 120)
    age = stale * (smooth * delay * lr) ** 2 * s.lr3
    server = 2 * lr * ((smooth * s.w1) ** 2 * s.lr + s.lr + smooth * s.lr2)
    noise = s.rounds / s.w2 * (local * (lr * smooth) ** 2 * s.lr * k1 + (age + server) * inverse / m)
    spread = far * (lr * smooth) ** 2 * s.rounds * s.lr * k2 / s.w2 + (6 if any_arrival else 0)
    return Bound(4 * setting.gap / (s.stages * s.w2 * lr), noise, spread)


def _leading(schedule: Schedule, setting: Setting, client_lr: float) -> float:
    return 64 / 17 * setting.gap / (schedule.stages * schedule.w2 * client_lr * setting.steps)


def _positive_root(square: float, slope: float, right: float) -> float:
    """e > 0 with square e² + slope e = right, without cancellation."""
    return 2 * right / (slope + math.sqrt(slope**2 + 4 * square * right))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
