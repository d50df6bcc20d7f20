"""The points of a curve: a metric of a run over server steps, virtual seconds and traffic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

from fedpace.record.run.run import Run
from fedpace.sim.observer import StepRecord

EPSILON = "epsilon"  # drawn like a metric
DECADES = 20  # ratio from which a logarithmic axis shows more


class Points(NamedTuple):
    """Columns of equal length, one entry per evaluation."""

    steps: Sequence[float]
    seconds: Sequence[float]
    traffic: Sequence[float]  # both directions, in the caller's unit
    values: Sequence[float]


def points(run: Run, metric: str, unit: float) -> Points:
    """At the steps where the metric was evaluated; the initial model is step 0."""
    first = [(0.0, 0.0, 0.0, run.initial_metrics[metric])] if metric in run.initial_metrics else []
    sent = accumulate(record.bytes_up + record.bytes_down for record in run.history)
    rows = first + [
        (float(record.version), record.virtual_seconds, total / unit, value)
        for record, total in zip(run.history, sent, strict=True)
        if (value := _value(record, metric)) is not None
    ]
    return Points(*(list(column) for column in zip(*rows, strict=True))) if rows else Points([], [], [], [])


def _value(record: StepRecord, metric: str) -> float | None:
    """A metric, or what a private run had spent."""
    return record.metrics.get(metric, record.epsilon if metric == EPSILON else None)


def spans_decades(values: Iterable[float]) -> bool:
    """Whether a logarithmic axis suits these values."""
    known = list(values)
    return bool(known) and min(known) > 0 and max(known) / min(known) > DECADES
