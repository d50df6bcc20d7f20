"""Statistics of repeated runs: what seeds say about a mean, a difference, and a cost to reach a target.

One module for every table: comparisons, sweeps, reports and the papers' pages. A run that never reached its target
counts as infinite in a median; a run that has no value at all is not among the values.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from fedpace.errors import require, require_number

LEVEL = 0.95  # of intervals; tests are two-sided at 1 - LEVEL
RANGES = {"accuracy": (0.0, 1.0)}  # possible values of a metric, where they are known


@dataclass(frozen=True, slots=True)
class SeedMean:
    """A mean over seeds and its t-interval; no interval (None) for a single seed."""

    mean: float
    low: float | None
    high: float | None
    n: int

    @property
    def half_width(self) -> float | None:
        return None if self.high is None else self.high - self.mean


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """A mean of differences between pairs of one seed, its t-interval, and the p of the two-sided paired t-test."""

    mean: float
    low: float | None
    high: float | None
    p: float | None  # None for a single pair
    n: int


@dataclass(frozen=True, slots=True)
class Equivalence:
    """Two one-sided tests: p < 1 - level shows that the mean difference lies within the margin, on either side.

    `low` and `high` is the interval of level 2 level - 1 (90 %), which lies inside the margin exactly then.
    """

    mean: float
    low: float | None
    high: float | None
    p: float | None
    margin: float
    n: int


Interval = TypeVar("Interval", SeedMean, PairedDifference)


def estimate(values: Sequence[float], level: float = LEVEL) -> SeedMean:
    """mean -+ t s / sqrt(n), with t the (1 + level) / 2 quantile of Student's t with n - 1 degrees of freedom."""
    _require_level(level)
    require(len(values) > 0, "values", list(values), "at least one")
    mean, error = _mean_and_error(values)
    half = None if error is None else _quantile((1 + level) / 2, len(values) - 1) * error
    return SeedMean(mean, *_around(mean, half), len(values))


def clipped(found: SeedMean, metric: str) -> SeedMean:
    """The interval within the possible values of the metric, for display: a t-interval of few seeds may exceed them.

    >>> from fedpace.statistics import clipped, estimate
    >>> clipped(estimate([0.9, 0.7]), "accuracy").high
    1.0
    """
    return _within(found, *RANGES.get(metric, (-math.inf, math.inf)))


def clipped_difference(found: PairedDifference, metric: str) -> PairedDifference:
    """Likewise, for a difference between two values of the metric."""
    low, high = RANGES.get(metric, (-math.inf, math.inf))
    return _within(found, low - high, high - low)


def paired(ours: Sequence[float], theirs: Sequence[float], level: float = LEVEL) -> PairedDifference:
    """Ours minus theirs, pair by pair: what a seed does to both cancels.

    >>> from fedpace.statistics import paired
    >>> round(paired([0.91, 0.93, 0.92], [0.90, 0.90, 0.91]).mean, 4)
    0.0167
    """
    differences = _differences(ours, theirs)
    found = estimate(differences, level)
    return PairedDifference(found.mean, found.low, found.high, _two_sided(differences), found.n)


def equivalence(
    ours: Sequence[float], theirs: Sequence[float], margin: float, level: float = LEVEL
) -> Equivalence:
    """Whether ours is as good as theirs up to `margin`, which must be chosen before the runs."""
    require_number(margin, "margin", above=0, below=math.inf, allowed="> 0")
    differences = _differences(ours, theirs)
    inner = estimate(differences, 2 * level - 1)
    upper, lower = (_one_sided([sign * d for d in differences], margin) for sign in (1, -1))
    p = None if upper is None or lower is None else max(upper, lower)
    return Equivalence(inner.mean, inner.low, inner.high, p, margin, inner.n)


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """Holm's adjusted p-values: below 5 %, the claim stands with a family-wise error of 5 %. None stays None.

    In ascending order, the k-th of m is max over j <= k of min(1, (m - j + 1) p_j).

    >>> from fedpace.statistics import holm
    >>> [round(p, 4) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    known = sorted((p, place) for place, p in enumerate(ps) if p is not None)
    adjusted: list[float | None] = [None] * len(ps)
    largest = 0.0
    for rank, (p, place) in enumerate(known):
        largest = max(largest, min(1.0, (len(known) - rank) * p))
        adjusted[place] = largest
    return adjusted


def median(values: Sequence[float]) -> float:
    """Of costs in which infinity stands for a target that was not reached."""
    require(len(values) > 0, "values", list(values), "at least one")
    return statistics.median(values)


# ------------------------------------------------------------ Student's t


def _differences(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    require(len(ours) == len(theirs), "pairs", (len(ours), len(theirs)), "equally many values on both sides")
    return [a - b for a, b in zip(ours, theirs, strict=True)]


def _mean_and_error(values: Sequence[float]) -> tuple[float, float | None]:
    """The mean and its standard error; no error for one value."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return mean, None
    return mean, statistics.stdev(values, xbar=mean) / math.sqrt(len(values))


def _two_sided(differences: Sequence[float]) -> float | None:
    mean, error = _mean_and_error(differences)
    if error is None:
        return None
    return min(1.0, 2 * _tail(abs(mean), error, len(differences) - 1))


def _one_sided(differences: Sequence[float], margin: float) -> float | None:
    """p of "the mean is at least `margin`" against "it is less"."""
    mean, error = _mean_and_error(differences)
    return None if error is None else _tail(margin - mean, error, len(differences) - 1)


def _tail(distance: float, error: float, freedom: int) -> float:
    """P(T >= distance / error). Without any error a distance is certain, and none is even odds."""
    from scipy.special import stdtr

    if error == 0:
        return 0.5 if distance == 0 else float(distance < 0)
    return float(stdtr(freedom, -distance / error))


def _quantile(share: float, freedom: int) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(freedom, share))


def _around(mean: float, half: float | None) -> tuple[float | None, float | None]:
    return (None, None) if half is None else (mean - half, mean + half)


def _within(found: Interval, low: float, high: float) -> Interval:
    """A metric of one's own may have another range than its name suggests: then nothing is clipped."""
    if found.low is None or found.high is None or not low <= found.mean <= high:
        return found
    return replace(found, low=max(low, found.low), high=min(high, found.high))


def _require_level(level: float) -> None:
    require_number(level, "level", above=0, below=1, allowed="in (0, 1)")
