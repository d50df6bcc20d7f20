"""The evidence of a claim: two sides seed by seed, and the test that was chosen for them before the runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sized
from dataclasses import dataclass
from typing import NamedTuple

from fedpace import statistics
from fedpace.errors import require
from fedpace.reproduce.outcome import Evaluation, Outcome
from fedpace.reproduce.results import Results
from fedpace.reproduce.training_curves import METRIC
from fedpace.statistics import Equivalence, PairedDifference

Cost = Callable[[Evaluation], float]
Measure = Callable[[Outcome], float | None]
ACCURACY_MARGIN = 0.5  # points of accuracy within which two methods count as equally good
COST_MARGIN = 0.1  # ten percent of rounds, seconds or bytes


@dataclass(frozen=True, slots=True)
class Comparison:
    """`larger` is claimed to be above `smaller`; with a margin, to be as good as it up to the margin.

    A ratio is tested on logarithms: twice as much is as far from equal as half as much. Its margin is a share.
    """

    what: str
    seeds: tuple[int, ...]
    larger: tuple[float, ...]
    smaller: tuple[float, ...]
    margin: float | None = None
    ratio: bool = False

    def __post_init__(self) -> None:
        require(
            len(self.seeds) == len(self.larger) == len(self.smaller),
            "values of a comparison",
            (len(self.seeds), len(self.larger), len(self.smaller)),
            "one on both sides for every seed",
        )

    @property
    def difference(self) -> PairedDifference:
        return statistics.paired(*self._sides)

    @property
    def equivalence(self) -> Equivalence:
        return statistics.equivalence(*self._sides, self.width)

    @property
    def width(self) -> float:
        """The margin on the scale that is tested."""
        margin = self.margin or 0.0
        return math.log1p(margin) if self.ratio else margin

    @property
    def as_claimed(self) -> bool:
        """Whether the mean lies where it is claimed to."""
        mean = self.difference.mean
        return mean > 0 if self.margin is None else abs(mean) < self.width

    @property
    def p(self) -> float | None:
        """Of the claim where the mean speaks for it, of its contrary where it does not."""
        if self.as_claimed:
            return self.difference.p if self.margin is None else self.equivalence.p
        return statistics.paired(*self._beside_the_margin).p

    @property
    def interval(self) -> tuple[float, float] | None:
        """Of the mean difference, 95 %; of an equivalence 90 %. Ratios are given as ratios."""
        found = self.difference if self.margin is None else self.equivalence
        if found.low is None or found.high is None:
            return None
        return (math.exp(found.low), math.exp(found.high)) if self.ratio else (found.low, found.high)

    @property
    def _sides(self) -> tuple[list[float], list[float]]:
        scale = math.log if self.ratio else float
        return [scale(value) for value in self.larger], [scale(value) for value in self.smaller]

    @property
    def _beside_the_margin(self) -> tuple[list[float], list[float]]:
        """The second side moved to the nearer end of the margin."""
        larger, smaller = self._sides
        shift = math.copysign(self.width, self.difference.mean)
        return larger, [value + shift for value in smaller]


# ------------------------------------------------------------------------------------- from measured runs


def above(results: Results, higher: str, lower: str, measure: Measure, what: str = "") -> Comparison:
    """One cell above another in a measure, seed by seed."""
    seeds, ours, theirs = _pairs(results, higher, lower, measure)
    return Comparison(what or f"{results.label(higher)} above {results.label(lower)}", seeds, ours, theirs)


def times(
    results: Results, more: str, less: str, factor: float, measure: Measure, what: str = ""
) -> Comparison:
    """One cell has more than so many times what another has in a measure, seed by seed."""
    seeds, ours, theirs = _pairs(results, more, less, measure)
    named = what or f"{results.label(more)} above {factor:g} times {results.label(less)}"
    return Comparison(named, seeds, ours, tuple(factor * value for value in theirs))


def as_good(
    results: Results, one: str, other: str, measure: Measure, margin: float = ACCURACY_MARGIN, what: str = ""
) -> Comparison:
    seeds, ours, theirs = _pairs(results, one, other, measure)
    return Comparison(
        what or f"{results.label(one)} as good as {results.label(other)}", seeds, ours, theirs, margin
    )


def no_worse(
    results: Results, one: str, other: str, measure: Measure, margin: float = ACCURACY_MARGIN
) -> Comparison:
    """One cell is not behind another by more than a margin."""
    seeds, ours, theirs = _pairs(results, one, other, measure)
    allowed = tuple(value - margin for value in theirs)
    return Comparison(
        f"{results.label(one)} above {results.label(other)} less {margin:g}", seeds, ours, allowed
    )


def as_cheap(results: Results, one: str, other: str, target: float, cost: Cost) -> Comparison:
    """Two cells reach an accuracy at the same cost, up to ten percent; all runs of both must get there."""
    seeds, ours, theirs = _pairs(results, one, other, to_target(target, cost))
    return Comparison(
        f"{results.label(one)} as cheap as {results.label(other)}",
        seeds,
        ours,
        theirs,
        COST_MARGIN,
        ratio=True,
    )


def cheaper(results: Results, less: str, more: str, target: float, cost: Cost, what: str = "") -> Comparison:
    """One cell reaches an accuracy at a lower cost than another, as a ratio; `Spent` has what is known of both."""
    sides = [results.outcomes.get(name, {}) for name in (more, less)]
    shared = tuple(sorted(sides[0].keys() & sides[1].keys()))
    pairs = [[_spent(side[seed], target, cost) for side in sides] for seed in shared]
    known = [_in_order(one, other) for one, other in pairs if one and other]
    seeds, larger, smaller = (shared, *zip(*known, strict=True)) if _complete(known, shared) else ((), (), ())
    named = what or f"{results.label(less)} before {results.label(more)}"
    return Comparison(named, seeds, larger, smaller, ratio=True)


class Spent(NamedTuple):
    """What a run spent until it reached its target, or at least spends if it did not get there."""

    cost: float
    reached: bool


def _spent(outcome: Outcome, target: float, cost: Cost) -> Spent | None:
    point = outcome.first_at(target)
    if point is not None:
        return Spent(cost(point), True)
    return Spent(cost(outcome.points[-1]), False) if outcome.points else None


def _in_order(one: Spent, other: Spent) -> tuple[float, float]:
    """The costs of both. Where a run that did not get there has spent less than its rival, their order is not known.

    Then they are a tie, at what both spent at least: it speaks for neither.
    """
    first, second = sorted((one, other), key=lambda spent: spent.cost)
    return (one.cost, other.cost) if first.reached else (first.cost, first.cost)


def sized(
    results: Results, name: str, measure: Measure, size: float, margin: float, what: str = ""
) -> Comparison:
    """A measure of one cell is as large as a claimed number, up to a margin."""
    seeds, values, _ = _pairs(results, name, name, measure)
    return Comparison(what or f"{results.label(name)}: {size:g}", seeds, values, (size,) * len(seeds), margin)


def training_loss(last: int = 1) -> Measure:
    """Over all clients' data: mean of the last evaluations; of a run without its curve, the loss at the end."""

    def measure(outcome: Outcome) -> float | None:
        if outcome.diverged or not outcome.values(METRIC):
            return outcome.training_loss
        return outcome.final(METRIC, last)

    return measure


def final_accuracy(last: int) -> Measure:
    """Mean of the last evaluations, in percent."""
    return lambda outcome: 100 * outcome.final("accuracy", last)


def to_target(target: float, cost: Cost) -> Measure:
    """The cost of reaching an accuracy; a run that did not get there has none."""

    def measure(outcome: Outcome) -> float | None:
        point = outcome.first_at(target)
        return None if point is None else cost(point)

    return measure


def _pairs(
    results: Results, one: str, other: str, measure: Measure
) -> tuple[tuple[int, ...], tuple[float, ...], tuple[float, ...]]:
    """The seeds that both cells have, and their values."""
    sides = [results.outcomes.get(name, {}) for name in (one, other)]
    found = {
        seed: (measure(sides[0][seed]), measure(sides[1][seed]))
        for seed in sorted(sides[0].keys() & sides[1].keys())
    }
    known = [
        (seed, a, b)
        for seed, (a, b) in found.items()
        if a is not None and b is not None and math.isfinite(a) and math.isfinite(b)
    ]
    if not _complete(known, found):
        return (), (), ()
    seeds, ours, theirs = zip(*known, strict=True)
    return seeds, ours, theirs


def _complete(known: Sized, shared: Sized) -> bool:
    """Whether there are values for all seeds: those of runs that did not diverge would be seeds chosen by outcome."""
    return 0 < len(known) == len(shared)
