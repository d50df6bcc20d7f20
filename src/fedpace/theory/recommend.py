"""Recommended learning rates: half of the stability limit of a quadratic of the same smoothness.

The theorems' limits are sufficient and usually far too strict to run at. What ends runs is instability, and that is
exact on quadratics: local steps of rate η_l make an update −c x with c <= 1 − (1 − η_l L)^K, and the server's η c must
stay below the limit for its momentum, the delays and the number of updates per step (`stability`). Recommended is

    η_l = min(1/2, √(M / (K̄ T))) / L        the order that gives the best rate, where that is small enough to be stable
    η c = min(1, half of the limit)

and what normalised averaging, adaptive servers and compression make of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedpace.aggregate import Cached, Normalised, PerStep
from fedpace.aggregate.expected import SHARE, UNIFORM, ExpectedWork
from fedpace.algorithm import Algorithm
from fedpace.link import CompressedModel, Difference, Lazy
from fedpace.server_opt import AMSGrad, Momentum, Stages
from fedpace.theory.compression import codec_of, worst_quality
from fedpace.theory.delays import Delays
from fedpace.theory.setting import Setting
from fedpace.theory.stability import contraction, mean_square_limit

HALF = 0.5
LOSSLESS = 1e-6  # q² below which a codec only rounds


@dataclass(frozen=True, slots=True)
class Recommended:
    """Rates, and the numbers behind them."""

    client_lr: float
    server_lr: float  # the largest of a schedule; the others in proportion
    step: float  # c, or what normalising and adapting makes of it: η times this is what must be stable
    limit: float  # of η c: mean square, where few updates make a step
    because: str
    exact: bool = True  # on a quadratic; codecs and caches are modelled as delays


def recommended(
    algorithm: Algorithm,
    setting: Setting,
    rounds: int,
    delays: Delays,
    work: ExpectedWork | None = None,
    q: float | None = None,
) -> Recommended:
    """Rates for this algorithm on a problem of this smoothness.

    `work` where clients do unequal amounts; `q`, what codecs lose of a norm, measured instead of at worst.
    """
    client_lr = _local_rate(algorithm, setting, rounds, work)
    step = _step(algorithm, setting, client_lr, work)
    limit = min(_limit(algorithm, rule, setting, delays, q) for rule in _rules(algorithm.server_opt))
    highest = min(1.0, HALF * limit) / step
    exact = lossless(algorithm, setting.size) and not isinstance(algorithm.aggregate, Cached)
    return Recommended(client_lr, highest, step, limit, _because(limit, delays), exact)


def _local_rate(algorithm: Algorithm, setting: Setting, rounds: int, work: ExpectedWork | None) -> float:
    k = setting.steps if work is None else float(work.steps.mean())
    best = math.sqrt(setting.m / (k * rounds))
    rate = min(HALF, best) / setting.smoothness
    local = algorithm.local
    if local.momentum:  # at most 1/(1 − ρ) of the gradients' sum is under way at a time
        rate *= 1 - local.momentum
    if isinstance(algorithm.aggregate, Normalised) and work is not None:
        rate = min(rate, HALF / (_heaviest(algorithm.aggregate, work) * setting.smoothness))
    return rate


def _heaviest(aggregate: Normalised, work: ExpectedWork) -> float:
    """τ_eff times the largest weight of a member: what one gradient may be multiplied by."""
    by_samples = aggregate.weighting == "samples"
    shares = work.samples if by_samples or work.choice == SHARE else np.ones_like(work.samples)
    tau = float(shares @ work.a_norm1 / shares.sum())
    return (
        tau * float(work.samples.max() / work.samples.mean())
        if by_samples and work.choice == UNIFORM
        else tau
    )


def _step(algorithm: Algorithm, setting: Setting, client_lr: float, work: ExpectedWork | None) -> float:
    """What multiplies −x in one update of the server's model, η apart."""
    smooth, aggregate = setting.smoothness, algorithm.aggregate
    if isinstance(aggregate, Normalised) and work is not None:
        return client_lr * smooth * _heaviest(aggregate, work)
    if isinstance(aggregate, PerStep):
        mean = setting.steps if work is None else float(work.steps.mean())
        return client_lr * smooth * (mean if aggregate.k_ref == "mean" else float(aggregate.k_ref))
    c = contraction(client_lr, setting.steps, smooth)
    if algorithm.local.momentum:
        c = min(1.0, c / (1 - algorithm.local.momentum))
    return c * _gain(algorithm)


def _gain(algorithm: Algorithm) -> float:
    """How much larger than the fresh update the server's step may be: lazy rules, and floors of adaptive servers."""
    gain, up, server = 1.0, algorithm.up, algorithm.server_opt
    if isinstance(up, Lazy) and up.tau > 0:
        gain *= 2.0 if up.rule == "aa" else 1.0 + up.tau
    if isinstance(server, AMSGrad):
        return gain / math.sqrt(server.eps)
    return gain / float(getattr(server, "eps", 1.0))


def _rules(server: Any) -> Sequence[tuple[float, float]]:
    """(β, ν) of every stage."""
    if isinstance(server, Stages):
        return [pair for rule in server.rules for pair in _rules(rule)]
    if isinstance(server, Momentum):
        return [(server.beta, server.nu)]
    return [(float(getattr(server, "b1", 0.0)), 1.0)]


def _limit(
    algorithm: Algorithm, rule: tuple[float, float], setting: Setting, delays: Delays, q: float | None
) -> float:
    """Of η c. A compressor with ||C(x) − x||² <= q² ||x||² and a memory delivers with 1/(1 − q²) rounds' delay."""
    up = _rounds_owed(algorithm.up, setting.size, q)
    down = _rounds_owed(algorithm.down, setting.size, q)
    chances = np.asarray(delays.chances)
    if isinstance(algorithm.down, Difference):
        up, down = up + down - 1, 1
    if up > 1:
        chances = np.convolve(chances, np.full(up, 1 / up))
    cached = np.full(delays.cache_age + 1, 1 / (delays.cache_age + 1))
    return mean_square_limit(
        *rule,
        chances,
        setting.m,
        cache=cached if isinstance(algorithm.aggregate, Cached) else 1,
        excess=down - 1 if isinstance(algorithm.down, CompressedModel) else 0.0,
    )


def _rounds_owed(link: Any, size: int, q: float | None = None) -> int:
    """1/(1 − q²) rounds, 256 at most; 1 where nothing is lost."""
    worst = worst_quality(codec_of(link), size)
    q2 = worst**2 if q is None or worst**2 <= LOSSLESS else q**2
    return 1 if q2 <= LOSSLESS else math.ceil(1 / max(1 - q2, 1 / 256) - 1e-9)


def lossless(algorithm: Algorithm, size: int) -> bool:
    """Whether every update arrives as it was made."""
    whole = _rounds_owed(algorithm.up, size) == _rounds_owed(algorithm.down, size) == 1
    return whole and not isinstance(algorithm.up, Lazy)


def _because(limit: float, delays: Delays) -> str:
    stale = f" with staleness up to {len(delays.chances) - 1}" if len(delays.chances) > 1 else ""
    what = "1" if HALF * limit >= 1 else f"half of the limit{stale}"
    return f"server_lr c = {what}: stable on a quadratic of curvature L"
