"""Robust aggregation of many updates against numpy's own mean and median of the same columns.

Rules and numpy take turns on one thread, in processor seconds; the medians count. numpy is given some columns at a
time: its median copies what it is given, which for all columns at once would be the updates' bytes once more. The
memory of a rule is what it allocates while it aggregates, beside the updates, as `tracemalloc` sees it.
"""

from __future__ import annotations

import statistics
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from time import process_time

import numpy as np

from fedpace.aggregate import (
    Aggregator,
    Bucketed,
    CenteredClip,
    Contribution,
    GeometricMedian,
    Krum,
    Median,
    NormBound,
    TrimmedMean,
)
from fedpace.bench.timing import seconds
from fedpace.errors import require_count
from fedpace.vector import Vector

SIZE, UPDATES, FEWEST = 10_000_000, 100, 5
COLUMNS = 1 << 18  # that numpy is given at once
MOST = 1.25  # times the updates' bytes, at the peak


@dataclass(frozen=True, slots=True)
class RobustCost:
    """One rule: seconds of a step's aggregation, beside numpy's, and its peak memory in the updates' bytes."""

    rule: str
    seconds: float
    of_median: float
    of_mean: float
    memory: float
    target: float = MOST


def rules(updates: int) -> dict[str, Aggregator]:
    """With a tenth of the updates hostile."""
    hostile = max(1, updates // 10)
    return {
        "Median()": Median(),
        "TrimmedMean(0.1)": TrimmedMean(0.1),
        "GeometricMedian()": GeometricMedian(),
        f"Krum({hostile})": Krum(hostile),
        "CenteredClip(1.0)": CenteredClip(1.0),
        "NormBound(1.0)": NormBound(1.0),
        "Bucketed(2, Median())": Bucketed(2, Median()),
    }


def measure(size: int = SIZE, updates: int = UPDATES, repeats: int = 1) -> Iterator[RobustCost]:
    require_count(updates, "updates", low=FEWEST)
    rng = np.random.default_rng(0)
    rows = np.empty((updates, size), np.float32)
    for row in rows:
        rng.standard_normal(dtype=np.float32, out=row)
    median, mean = (partial(by_columns, rows, of) for of in (np.median, np.mean))
    for name, rule in rules(updates).items():
        own = partial(aggregated, rule, rows)
        memory = 1 + peak_bytes(own) / rows.nbytes  # compiles as well
        turns = [[seconds(call, clock=process_time) for call in (own, median, mean)] for _ in range(repeats)]
        took, of_median, of_mean = (statistics.median(column) for column in zip(*turns, strict=True))
        yield RobustCost(name, took, took / of_median, took / of_mean, memory)


def aggregated(rule: Aggregator, rows: Vector) -> Vector:
    """A server step's aggregation, as the server asks for it."""
    x, state = rows[0], rule.init(rows[0], len(rows))
    for client, row in enumerate(rows):
        drawn = partial(np.random.default_rng, client)
        state = rule.add(Contribution(client, row, rng=drawn), x, x, state)
    return rule.result(state)[0]


def by_columns(rows: Vector, combine: Callable[..., Vector]) -> Vector:
    """numpy's own function of every column."""
    combined = np.empty(rows.shape[1], rows.dtype)
    for low in range(0, rows.shape[1], COLUMNS):
        columns = slice(low, low + COLUMNS)
        combined[columns] = combine(rows[:, columns], axis=0)
    return combined


def peak_bytes(call: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
