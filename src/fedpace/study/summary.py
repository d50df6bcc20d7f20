"""What the seeds of a study say: one summary per row."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from fedpace.record.report.compare import Target, reached, real_seconds
from fedpace.statistics import PairedDifference, SeedMean, estimate, holm, median, paired
from fedpace.study.trial import StudyRun


@dataclass(frozen=True, slots=True)
class RowCost:
    """With a target: medians of what it took to reach it. Without: means over whole runs."""

    steps: float
    virtual_seconds: float
    bytes_up: float
    bytes_down: float
    real_seconds: float | None  # None: not known for all of them
    reached: int  # runs that reached the target, or completed


@dataclass(frozen=True, slots=True)
class RowSummary:
    """One row: its metrics over the runs that were completed, its cost, and how it differs from the baseline."""

    runs: int
    completed: int
    metrics: Mapping[str, SeedMean]
    cost: RowCost | None  # None: no run was completed, and there is no target
    difference: PairedDifference | None = None  # from the baseline, in the study's metric
    p_holm: float | None = None  # of that difference, adjusted over the rows


Rows = Mapping[str, Sequence[StudyRun]]


def summaries(rows: Rows, metric: str, target: Target | None, baseline: str) -> dict[str, RowSummary]:
    """One for each row; differences are paired by seed, their p adjusted over all rows but the baseline."""
    found = {row: _summary(runs, target) for row, runs in rows.items()}
    differences = {row: _difference(rows[row], rows[baseline], metric) for row in rows if row != baseline}
    adjusted = holm([None if each is None else each.p for each in differences.values()])
    for (row, difference), p in zip(differences.items(), adjusted, strict=True):
        found[row] = replace(found[row], difference=difference, p_holm=p)
    return found


def costs(run: StudyRun, target: Target | None) -> tuple[float, float, float, float] | None:
    """Steps, virtual seconds, bytes up and down to the target, or of the whole run; None if it did not get there."""
    whole = run.run if run.completed else None
    there = whole if target is None else reached(run.run, target)
    if there is None:
        return None
    return len(there.history), there.virtual_seconds, there.bytes_up, there.bytes_down


def _summary(runs: Sequence[StudyRun], target: Target | None) -> RowSummary:
    completed = [each.run for each in runs if each.completed]
    names = dict.fromkeys(name for run in completed for name in run.metrics)
    metrics = {
        name: estimate([run.metrics[name] for run in completed if name in run.metrics]) for name in names
    }
    return RowSummary(len(runs), len(completed), metrics, _cost(runs, target))


def _cost(runs: Sequence[StudyRun], target: Target | None) -> RowCost | None:
    found = [costs(each, target) for each in runs]
    there = [each for each in found if each is not None]
    if target is None:
        if not there:
            return None
        steps, seconds, up, down = map(fmean, zip(*there, strict=True))
        return RowCost(steps, seconds, up, down, _mean_real_seconds(runs), len(there))
    columns = zip(*(each or [math.inf] * 4 for each in found), strict=True)
    steps, seconds, up, down = map(median, columns)
    return RowCost(steps, seconds, up, down, _median_real_seconds(runs, target), len(there))


def _mean_real_seconds(runs: Sequence[StudyRun]) -> float | None:
    times = [real_seconds(each.run) for each in runs if each.completed]
    known = [at for at in times if at is not None]
    return fmean(known) if known and len(known) == len(times) else None


def _median_real_seconds(runs: Sequence[StudyRun], target: Target) -> float | None:
    there = [reached(each.run, target) for each in runs]
    times = [math.inf if run is None else real_seconds(run) for run in there]
    known = [at for at in times if at is not None]
    return median(known) if len(known) == len(times) else None


def _difference(ours: Sequence[StudyRun], theirs: Sequence[StudyRun], metric: str) -> PairedDifference | None:
    """Over the seeds that both completed."""
    mine, other = _by_seed(ours, metric), _by_seed(theirs, metric)
    seeds = [seed for seed in mine if seed in other]
    return paired([mine[s] for s in seeds], [other[s] for s in seeds]) if seeds else None


def _by_seed(runs: Sequence[StudyRun], metric: str) -> dict[int, float]:
    completed = (each.run for each in runs if each.completed)
    return {run.seed: run.metrics[metric] for run in completed if metric in run.metrics}
