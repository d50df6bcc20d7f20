"""Predicted and real run side by side: rates, staleness, bytes, and the last metrics.

The order in which updates arrive is chance: two real runs of one study have different ones, and an asynchronous
algorithm different models. What is predicted is therefore the mean over several simulated orders, with their range.
A further draw from the same distribution lies within the range of n with a probability of (n - 1) / (n + 1).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

from fedpace.sim.observer import StepRecord

FIFTH = 5

History = Sequence[StepRecord]


@dataclass(frozen=True, slots=True)
class ComparedQuantity:
    """One row: what every repeat predicts, and what happened; None: not known."""

    name: str
    values: tuple[float, ...]
    real: float | None

    @property
    def predicted(self) -> float | None:
        return statistics.fmean(self.values) if self.values else None

    @property
    def low(self) -> float | None:
        return min(self.values, default=None)

    @property
    def high(self) -> float | None:
        return max(self.values, default=None)

    @property
    def difference(self) -> float | None:
        """Of the mean, relative to what happened."""
        if self.predicted is None or self.real is None:
            return None
        if self.real == 0:
            return 0.0 if self.predicted == 0 else None
        return (self.predicted - self.real) / abs(self.real)

    @property
    def cells(self) -> list[str]:
        """As text: the name, what was predicted, its range, what happened, and the difference."""
        spread = "" if self.low == self.high else f"{shown(self.low, 3)} to {shown(self.high, 3)}"
        return [self.name, shown(self.predicted), spread, shown(self.real), percent(self.difference)]


TITLES = ("", "predicted", "range", "real", "difference")


def probability_within(repeats: int) -> float:
    """That one more value lies between the smallest and the largest of so many."""
    return (repeats - 1) / (repeats + 1)


def compared(predicted: Sequence[History], real: History) -> list[ComparedQuantity]:
    """Over as many steps as all have; over all that were predicted without a real one."""
    steps = min(map(len, [*predicted, real] if real else predicted))
    ours, theirs = [history[:steps] for history in predicted], real[:steps]
    return [
        ComparedQuantity(
            "server steps", tuple(float(len(each)) for each in predicted), len(real) if real else None
        ),
        *(
            ComparedQuantity(f"{name}, {steps:,} steps", tuple(map(of, ours)), of(theirs) if theirs else None)
            for name, of in _QUANTITIES.items()
            if steps
        ),
        *_metrics(ours, theirs),
    ]


def _staleness(history: History) -> list[int]:
    return list(chain.from_iterable(step.staleness for step in history))


_QUANTITIES: dict[str, Callable[[History], float]] = {
    "seconds": lambda history: history[-1].virtual_seconds,
    "steps per minute": lambda history: 60 * len(history) / max(history[-1].virtual_seconds, 1e-9),
    "mean staleness": lambda history: statistics.fmean(_staleness(history) or [0]),
    "largest staleness": lambda history: max(_staleness(history), default=0),
    "bytes up": lambda history: sum(step.bytes_up for step in history),
    "bytes down": lambda history: sum(step.bytes_down for step in history),
}


def _metrics(predicted: Sequence[History], real: History) -> list[ComparedQuantity]:
    """The mean over the last fifth of the steps that were measured: a single one depends on who came last.

    Which steps these are, the real run says; where time or bytes decide, others were measured at other steps of them.
    """
    known = any(step.metrics for step in real)
    example = real if known else predicted[0]
    places = [place for place, step in enumerate(example) if step.metrics]
    if not places:
        return []
    first, last = places[-max(1, len(places) // FIFTH)], places[-1]
    where = f"steps {example[first].version:,} to {example[last].version:,}"
    return [
        ComparedQuantity(
            f"{name}, {where}",
            tuple(mean for each in predicted if (mean := _mean(each[first : last + 1], name)) is not None),
            _mean(real[first : last + 1], name),
        )
        for name in example[last].metrics
    ]


def _mean(history: History, name: str) -> float | None:
    found = [step.metrics[name] for step in history if name in step.metrics]
    return statistics.fmean(found) if found else None


def shown(value: float | None, digits: int = 4) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 1000 else f"{value:.{digits}g}"


def percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:+.1f} %"
