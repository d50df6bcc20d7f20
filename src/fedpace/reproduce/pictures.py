"""The look of the pictures: one palette, curves with a band over seeds, bars beside published values."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from fedpace.record.report.plot import COLOURS, STYLE
from fedpace.reproduce.outcome import Evaluation, Outcome
from fedpace.reproduce.results import Results, mean_curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

X = Callable[[Evaluation], float]
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p")
HOLLOW: Mapping[str, Any] = {"linestyle": "", "markerfacecolor": "white", "markeredgewidth": 1.5}
BOUND = "≥ (hollow): not all runs reach the target"


def steps(point: Evaluation) -> float:
    return float(point.version)


def seconds(point: Evaluation) -> float:
    return point.seconds


def megabytes(point: Evaluation) -> float:
    return point.bytes / 1e6


def style() -> AbstractContextManager[None]:
    from matplotlib import rc_context

    return rc_context({**STYLE, "lines.linewidth": 1.8, "axes.titlesize": 10, "axes.titleweight": "bold"})


def sheet(
    columns: int, rows: int = 1, *, width: float = 4.2, height: float = 3.2, **more: Any
) -> tuple[Figure, Any]:
    """A figure and its grid of axes, rows by columns."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns + 0.4, height * rows + 0.3), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **more)


def panels(count: int, columns: int, **size: Any) -> tuple[Figure, list[Axes]]:
    """A figure and so many axes, in rows."""
    figure, grid = sheet(columns, -(-count // columns), **size)
    for unused in grid.flat[count:]:
        unused.remove()
    return figure, list(grid.flat[:count])


def colour(at: int) -> str:
    return COLOURS[at % len(COLOURS)]


def marker(at: int) -> str:
    return MARKERS[at % len(MARKERS)]


def curve(
    axes: Axes,
    outcomes: Sequence[Outcome],
    label: str,
    at: int,
    x: X = steps,
    metric: str = "accuracy",
    smooth: int = 1,
    target: float | None = None,
    **line: Any,
) -> None:
    """Mean over seeds with a band of one standard deviation; accuracy in percent, the band not beyond 0 and 100.

    Runs that ended at a `target` accuracy keep their last value.
    """
    xs, mean, deviation = mean_curve(outcomes, x, metric, smooth, target)
    scale, most = (100.0, 100.0) if metric == "accuracy" else (1.0, math.inf)
    options = {"color": colour(at), **line}
    axes.plot(xs, [scale * value for value in mean], label=label, **options)
    low = [max(0.0, scale * (value - width)) for value, width in zip(mean, deviation, strict=True)]
    high = [min(most, scale * (value + width)) for value, width in zip(mean, deviation, strict=True)]
    axes.fill_between(xs, low, high, color=options["color"], alpha=0.15, linewidth=0)


def curves(
    axes: Axes,
    results: Results,
    cells: Mapping[str, str],
    x: X = steps,
    metric: str = "accuracy",
    smooth: int = 1,
    order: Sequence[str] = (),
) -> None:
    """One curve per label -> cell that has been run; with an `order` of labels, of the same colours on every panel."""
    for at, (label, cell) in enumerate(cells.items()):
        if results.have(cell):
            place, target = order.index(label) if order else at, results.cells[cell].stop_at
            curve(axes, results.of(cell), label, place, x, metric, smooth, target)


def costs(
    axes: Axes,
    results: Results,
    series: Mapping[str, Mapping[int, str]],
    target: float,
    cost: X,
    order: Sequence[str] = (),
) -> None:
    """Mean cost of reaching an accuracy for label -> n -> cell.

    Hollow, a lower bound, where a run does not get there: it counts with all it spent, unless it diverged.
    """
    for at, (label, cells) in enumerate(series.items()):
        ran = {n: cell for n, cell in cells.items() if results.have(cell)}
        spent = {n: results.spread(cell, _spent(target, cost)).mean for n, cell in ran.items()}
        missed = [n for n, cell in ran.items() if not results.to_target(cell, target, cost).reached]
        if ran:
            marked(axes, spent, label, order.index(label) if order else at, missed)


def _spent(target: float, cost: X) -> Callable[[Outcome], float | None]:
    def spent(run: Outcome) -> float | None:
        point = run.first_at(target) or (None if run.diverged or not run.points else run.points[-1])
        return None if point is None else cost(point)

    return spent


def marked(
    axes: Axes,
    values: Mapping[int, float],
    label: str,
    at: int,
    bounds: Collection[int] = (),
    **look: Any,
) -> None:
    """A line with markers; those of lower bounds are hollow, off the line, and explained in the legend."""
    options = {"color": colour(at), "marker": marker(at), **look}
    on_line = [math.nan if n in bounds else value for n, value in values.items()]
    axes.plot(list(values), on_line, label=label, **options)
    shown = [n for n in bounds if math.isfinite(values[n])]
    axes.plot(shown, [values[n] for n in shown], **{**options, **HOLLOW})
    if shown and BOUND not in axes.get_legend_handles_labels()[1]:
        axes.plot([], [], color="#555555", marker="o", label=BOUND, **HOLLOW)


def legend_below(figure: Figure, shown: Iterable[Axes], columns: int) -> None:
    """One legend for several panels."""
    figure.legend(*_entries(shown), loc="outside lower center", ncols=columns, fontsize=8)


def _entries(shown: Iterable[Axes]) -> tuple[list[Any], list[str]]:
    """Handles and labels of a legend, each label once; that of lower bounds comes last."""
    found = {
        label: handle
        for axes in shown
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    labels = sorted(found, key=lambda label: label == BOUND)
    return [found[label] for label in labels], labels


def titled(axes: Axes, title: str, x: str, y: str = "", legend: str | None = None) -> None:
    axes.set_title(title, loc="left")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if legend:
        options: dict[str, Any] = {"loc": legend, "fontsize": 8}
        axes.legend(*_entries([axes]), **options)


def loglog(axes: Axes, places: Sequence[int]) -> None:
    """Both axes logarithmic: these ticks across, plain numbers up."""
    from matplotlib.ticker import FormatStrFormatter, LogLocator

    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.minorticks_off()
    axes.set_xticks(places, [str(place) for place in places])
    axes.set_xlim(places[0] / 1.15, places[-1] * 1.15)
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FormatStrFormatter("%g"))
    axes.margins(y=0.15)


def bars(
    axes: Axes,
    labels: Sequence[str],
    groups: Mapping[str, Sequence[float]],
    errors: Mapping[str, Sequence[float]] | None = None,
) -> None:
    """Bars side by side, one group per label."""
    width = 0.8 / max(1, len(groups))
    for at, (name, heights) in enumerate(groups.items()):
        places = [k + (at - (len(groups) - 1) / 2) * width for k in range(len(labels))]
        spread = None if errors is None or name not in errors else list(errors[name])
        look: dict[str, Any] = {"color": colour(at), "label": name}
        if name == "published":
            look = {"color": "#d9d9d9", "edgecolor": "#888888", "label": name}
        axes.bar(
            places,
            heights,
            width * 0.92,
            yerr=spread,
            error_kw={"elinewidth": 0.8, "ecolor": "#555555"},
            **look,
        )
    axes.set_xticks(range(len(labels)), labels)
    axes.grid(axis="x", visible=False)
