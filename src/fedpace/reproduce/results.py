"""The outcomes of an experiment's cells, by name and seed, and what is read off them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fedpace.reproduce.cell import Cell
from fedpace.reproduce.outcome import Evaluation, Outcome


@dataclass(frozen=True, slots=True)
class SeedSpread:
    """Mean and standard deviation over seeds; `missed` of them have no value (not reached)."""

    values: tuple[float, ...]
    missed: int = 0

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values) if self.values else math.nan

    @property
    def deviation(self) -> float:
        return statistics.stdev(self.values) if len(self.values) > 1 else 0.0

    @property
    def reached(self) -> bool:
        """Every seed has a value."""
        return bool(self.values) and not self.missed

    def __format__(self, spec: str) -> str:
        if not self.values:
            return "not reached" if self.missed else "not run"
        spread = f" ± {self.deviation:{spec}}" if len(self.values) > 1 else ""
        share = f" ({len(self.values)} of {len(self.values) + self.missed})" if self.missed else ""
        return f"{self.mean:{spec}}{spread}{share}"


@dataclass(slots=True)
class Results:
    """Outcomes by cell name, in the order of seeds."""

    cells: dict[str, Cell] = field(default_factory=dict)
    outcomes: dict[str, dict[int, Outcome]] = field(default_factory=dict)
    choices: Mapping[str, tuple[float, str]] = field(default_factory=dict)  # committed, by name of the grid
    labels: Mapping[str, str] = field(default_factory=dict)  # of cells that stand in the place of others

    def add(self, cell: Cell, seed: int, outcome: Outcome) -> None:
        self.cells[cell.name] = cell
        self.outcomes.setdefault(cell.name, {})[seed] = outcome

    def label(self, name: str) -> str:
        """What a cell is called in evidence: the name under which it was run."""
        return self.labels.get(name, name)

    def of(self, name: str) -> list[Outcome]:
        """The finished runs of a cell, by seed."""
        return [outcome for _, outcome in sorted(self.outcomes.get(name, {}).items())]

    def have(self, *names: str) -> bool:
        """Whether every one of these cells has at least one finished run."""
        return all(self.outcomes.get(name) for name in names)

    def spread(self, name: str, measure: Callable[[Outcome], float | None]) -> SeedSpread:
        """A figure of each run of a cell; None counts as missed."""
        found = [measure(outcome) for outcome in self.of(name)]
        values = tuple(value for value in found if value is not None and not math.isnan(value))
        return SeedSpread(values, len(found) - len(values))

    def final(self, name: str, metric: str = "accuracy", last: int = 1) -> SeedSpread:
        """Mean of the last evaluations, in percent for accuracy."""
        scale = 100.0 if metric == "accuracy" else 1.0
        return self.spread(name, lambda outcome: scale * outcome.final(metric, last))

    def to_target(self, name: str, target: float, what: Callable[[Evaluation], float]) -> SeedSpread:
        """What it took (steps, seconds, bytes) to reach an accuracy."""

        def measure(outcome: Outcome) -> float | None:
            point = outcome.first_at(target)
            return None if point is None else what(point)

        return self.spread(name, measure)

    @property
    def real_seconds(self) -> float:
        return sum(outcome.real_seconds for runs in self.outcomes.values() for outcome in runs.values())

    @property
    def seeds(self) -> int:
        return max((len(runs) for runs in self.outcomes.values()), default=0)


def mean_curve(
    outcomes: Sequence[Outcome],
    x: Callable[[Evaluation], float],
    metric: str = "accuracy",
    smooth: int = 1,
    target: float | None = None,
) -> tuple[list[float], list[float], list[float]]:
    """x, mean and deviation of a metric over seeds, at the evaluations that all of them have.

    A run that ended at the `target` accuracy keeps its last value while others go on.
    """
    runs = [[point for point in outcome.points if metric in point.metrics] for outcome in outcomes]
    length = _shared_length(runs, target)
    rows = [_smoothed(_held([p.metrics[metric] for p in points], length), smooth) for points in runs]
    xs = _mean_x([[x(point) for point in points[:length]] for points in runs], length)
    columns = list(zip(*rows, strict=True))
    return xs, [statistics.fmean(column) for column in columns], [_deviation(column) for column in columns]


def _shared_length(runs: Sequence[Sequence[Evaluation]], target: float | None) -> int:
    """Evaluations of the shortest run that ended elsewhere than at the target; of the longest if none did."""
    elsewhere = [len(points) for points in runs if not _at_target(points, target)]
    return min(elsewhere) if elsewhere else max(map(len, runs), default=0)


def _at_target(points: Sequence[Evaluation], target: float | None) -> bool:
    return target is not None and bool(points) and points[-1].metrics.get("accuracy", -1.0) >= target


def _held(values: Sequence[float], length: int) -> list[float]:
    return [*values[:length], *(values[-1] for _ in range(len(values), length))]


def _mean_x(runs: Sequence[Sequence[float]], length: int) -> list[float]:
    """Mean over runs; after the end of some it advances by the mean step of the others."""
    shared = min(map(len, runs), default=0)
    xs = [statistics.fmean(own[at] for own in runs) for at in range(shared)]
    for at in range(shared, length):
        xs.append(xs[-1] + statistics.fmean(own[at] - own[at - 1] for own in runs if at < len(own)))
    return xs


def _smoothed(values: Sequence[float], width: int) -> list[float]:
    """Mean of the last `width` values up to each."""
    return [statistics.fmean(values[max(0, at - width + 1) : at + 1]) for at in range(len(values))]


def _deviation(values: Iterable[float]) -> float:
    found = list(values)
    return statistics.stdev(found) if len(found) > 1 else 0.0
