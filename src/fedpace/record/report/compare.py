"""Several runs of several algorithms side by side: when each reached a target, and all in one picture."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from fedpace.record.report.plot import COLOURS, STYLE, words
from fedpace.record.report.points import Points, points
from fedpace.record.run.metrics import rises
from fedpace.record.run.run import Run
from fedpace.record.run.units import byte_unit
from fedpace.statistics import clipped, estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDE = 8.0  # from this ratio on, small values would vanish on a linear axis

Target = tuple[str, float]


def reached(run: Run, goal: Target) -> Run | None:
    """The run up to its first step at the target."""
    metric, value = goal
    for at, record in enumerate(run.history, start=1):
        found = record.metrics.get(metric)
        if found is not None and (found >= value if rises(metric) else found <= value):
            return replace(run, history=run.history[:at])
    return None


def picture(
    runs: Mapping[str, Sequence[Run]], goal: Target | None = None, title: str = "", metric: str = ""
) -> Figure:
    """One metric over server steps, virtual seconds and traffic; the mean over seeds thick, each seed thin."""
    from matplotlib import rc_context

    from fedpace.display.figure import DisplayedFigure

    metric = metric or (goal[0] if goal else _metric(runs))
    unit, name = byte_unit(max(run.bytes_up + run.bytes_down for own in runs.values() for run in own))
    with rc_context(STYLE):
        figure = DisplayedFigure(figsize=(12, 4.2), layout="constrained")
        row = figure.subplots(1, 3, sharey=True)
        drawn = {label: [points(run, metric, unit) for run in own] for label, own in runs.items()}
        for at, (label, seeds) in enumerate(drawn.items()):
            _draw(row, seeds, label, COLOURS[at % len(COLOURS)], metric)
        for at in (1, 2):
            ends = [seed[at][-1] for seeds in drawn.values() for seed in seeds if seed[at]]
            if ends and 0 < WIDE * min(ends) < max(ends):
                row[at].set_xscale("log", nonpositive="mask")  # the initial model has no place on it
        for axes, what in zip(row, ("server steps", "virtual seconds", f"{name} up and down"), strict=True):
            axes.set_xlabel(what)
            if goal and goal[0] == metric:
                axes.axhline(goal[1], color="#888888", linewidth=1, linestyle=":")
        row[0].set_ylabel(words(metric))
        figure.legend(
            *row[0].get_legend_handles_labels(), loc="outside lower center", ncols=min(len(runs), 6)
        )
        figure.suptitle(words(title), x=0.01, ha="left", fontweight="bold")
    return figure


def _draw(row: Sequence[Axes], seeds: Sequence[Points], label: str, colour: str, metric: str) -> None:
    whole = _mean(seeds)
    for *xs, ys in seeds:
        for axes, x in zip(row, xs, strict=True):
            alone = whole is None or len(seeds) == 1
            style = {"linewidth": 1.8} if alone else {"linewidth": 0.7, "alpha": 0.4}
            axes.plot(x, ys, color=colour, marker="o" if len(x) == 1 else None, **style)  # type: ignore[arg-type]
    if whole is not None:
        *xs, ys = whole
        columns = zip(*(each.values for each in seeds), strict=True)
        found = [clipped(estimate(values), metric) for values in columns]
        low, high = [each.low or 0.0 for each in found], [each.high or 0.0 for each in found]
        for axes, x in zip(row, xs, strict=True):
            axes.plot(x, ys, color=colour, linewidth=2.0)
            axes.fill_between(x, low, high, color=colour, alpha=0.12, linewidth=0)
    row[0].plot([], [], color=colour, linewidth=2.0, label=words(label))


def _mean(seeds: Sequence[Points]) -> Points | None:
    """Point by point, where all seeds were measured after the same steps."""
    if len(seeds) < 2 or any(each[0] != seeds[0][0] for each in seeds):
        return None
    means = (
        [statistics.mean(values) for values in zip(*columns, strict=True)]
        for columns in zip(*seeds, strict=True)
    )
    return Points(*means)


def _metric(runs: Mapping[str, Sequence[Run]]) -> str:
    names = {name for own in runs.values() for run in own for name in run.metrics}
    return "accuracy" if "accuracy" in names else "loss"


def real_seconds(run: Run) -> float | None:
    """Up to the last step of this history; by the clock of each step where there is one."""
    times: Sequence[float] = run.summary.get("step_seconds", ())
    if times and len(run.history) <= len(times):
        return times[len(run.history) - 1]
    return run.summary.get("real_seconds") if len(run.history) == run.rounds else None
