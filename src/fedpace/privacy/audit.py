"""What an attacker learns of canaries: an estimate of epsilon, and a lower bound with 95 % confidence.

A canary is a client whose update is one random direction. Whoever sees all released models takes the inner product of
each direction with the released steps. Of a canary that was no client it is normal with a known variance, for the
direction is independent of everything that was released.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedpace.errors import require
from fedpace.vector import Vector

Scores = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
LARGEST = 50.0  # epsilon beyond which nothing is told apart


@dataclass(frozen=True, slots=True)
class Audit:
    """`estimate`: Andrew et al. 2023; `lower_bound`: Steinke, Nasr & Jagielski 2023, with 95 % confidence."""

    estimate: float
    lower_bound: float
    guesses: int
    correct: int

    def __str__(self) -> str:
        return (
            f"epsilon estimated as {self.estimate:.3g}, at least {self.lower_bound:.3g} with 95 % confidence "
            f"({self.correct} of {self.guesses} guesses right)"
        )


def scores(directions: Sequence[Vector] | Vector, models: Sequence[Vector]) -> Scores:
    """One per direction, standard normal for those that were no clients. `models`: all released, the initial first.

    Steps are weighted by their lengths' inverses: where the noise was larger, less is learned.
    """
    steps = np.diff(np.asarray(models, np.float64), axis=0)
    total = (steps / np.linalg.norm(steps, axis=1, keepdims=True)).sum(axis=0)
    rows = np.asarray(directions, np.float64)
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(total)
    found: Scores = (rows @ total) * math.sqrt(total.size) / lengths
    return found


def audited(found: Scores, included: Flags, delta: float, guesses: int | None = None) -> Audit:
    """Guess the highest scores in and the lowest out; as many of both, half of all canaries by default."""
    count = len(found)
    guesses = count // 2 if guesses is None else guesses
    require(0 < guesses <= count, "guesses", guesses, f"in 1..{count}")
    order, low = np.argsort(found, kind="stable"), guesses // 2
    right = int((~included[order[:low]]).sum() + included[order[count - (guesses - low) :]].sum())
    return Audit(estimate(found[included], delta), lower_bound(count, guesses, right, delta), guesses, right)


# ------------------------------------------------------------ the estimate


def estimate(included: Scores, delta: float) -> float:
    """Epsilon of two normal distributions: that of the scores of clients, and the standard normal one.

    Andrew et al. 2023, arXiv:2302.03098, section 3: the distribution with canaries is fitted, the one without is known.
    Departures: a spread within three standard errors of 1 is taken as 1. The noise is the same with and without a
    canary, and at small delta an error of four percent in it would count more than all canaries together.
    """
    mean, spread = float(np.mean(included)), float(np.std(included, ddof=1))
    if abs(spread - 1) * math.sqrt(2 * len(included)) < 3:
        spread = 1.0
    low, high = 0.0, LARGEST
    while high - low > 1e-6:
        middle = (low + high) / 2
        if (
            max(_divergence(mean, spread, 0.0, 1.0, middle), _divergence(0.0, 1.0, mean, spread, middle))
            > delta
        ):
            low = middle
        else:
            high = middle
    return high


def _divergence(mean: float, spread: float, other_mean: float, other_spread: float, epsilon: float) -> float:
    """sup over sets S of P(S) - e^epsilon Q(S) for two normal distributions."""
    from scipy.stats import norm

    # log p - log q - epsilon = a x^2 + b x + c: where it is positive, S has its points
    a = 1 / (2 * other_spread**2) - 1 / (2 * spread**2)
    b = mean / spread**2 - other_mean / other_spread**2
    c = other_mean**2 / (2 * other_spread**2) - mean**2 / (2 * spread**2)
    c += math.log(other_spread / spread) - epsilon

    def gain(low: float, high: float) -> float:
        p = norm.cdf((high - mean) / spread) - norm.cdf((low - mean) / spread)
        q = norm.cdf((high - other_mean) / other_spread) - norm.cdf((low - other_mean) / other_spread)
        return float(p - math.exp(epsilon) * q)

    if abs(a) < 1e-12:
        if abs(b) < 1e-12:
            return max(0.0, 1 - math.exp(epsilon)) if c > 0 else 0.0
        return gain(-c / b, math.inf) if b > 0 else gain(-math.inf, -c / b)
    inside = b * b - 4 * a * c
    if inside <= 0:
        return gain(-math.inf, math.inf) if a > 0 else 0.0
    roots = sorted(((-b - math.sqrt(inside)) / (2 * a), (-b + math.sqrt(inside)) / (2 * a)))
    if a < 0:
        return gain(*roots)
    return gain(-math.inf, roots[0]) + gain(roots[1], math.inf)


# ------------------------------------------------------------ the bound


def lower_bound(canaries: int, guesses: int, right: int, delta: float, confidence: float = 0.95) -> float:
    """The largest epsilon that so many right guesses refute. Steinke, Nasr & Jagielski 2023, arXiv:2305.08846."""
    if probability(canaries, guesses, right, 0.0, delta) > 1 - confidence:
        return 0.0
    low, high = 0.0, LARGEST
    while high - low > 1e-4:
        middle = (low + high) / 2
        refuted = probability(canaries, guesses, right, middle, delta) <= 1 - confidence
        low, high = (middle, high) if refuted else (low, middle)
    return low


def probability(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """At most how likely an (epsilon, delta) private run allows `right` or more right guesses (their Theorem 5.2).

    P[Bin(r, e^eps / (1 + e^eps)) >= v] + 2 m delta max_i P[v > Bin >= v - i] / i.
    """
    from scipy.stats import binom

    chance = 1 / (1 + math.exp(-epsilon))
    exact = float(binom.sf(right - 1, guesses, chance))
    below = np.cumsum(binom.pmf(np.arange(right - 1, -1, -1), guesses, chance))
    worst = float((below / np.arange(1, right + 1)).max()) if right else 0.0
    return min(1.0, exact + 2 * canaries * delta * worst)
