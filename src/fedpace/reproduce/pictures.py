"""The look of the pictures: one palette, curves with a band over seeds, bars beside published values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from fedpace.record.report.plot import COLOURS, STYLE
from fedpace.reproduce.outcome import Evaluation, Outcome
from fedpace.reproduce.results import Results, mean_curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

X = Callable[[Evaluation], float]


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


def colour(at: int) -> str:
    return COLOURS[at % len(COLOURS)]


def curve(
    axes: Axes,
    outcomes: Sequence[Outcome],
    label: str,
    at: int,
    x: X = steps,
    metric: str = "accuracy",
    smooth: int = 1,
    **line: Any,
) -> None:
    """Mean over seeds with a band of one standard deviation; accuracy in percent, the band not beyond 0 and 100."""
    xs, mean, deviation = mean_curve(outcomes, x, metric, smooth)
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
            curve(axes, results.of(cell), label, order.index(label) if order else at, x, metric, smooth)


def titled(axes: Axes, title: str, x: str, y: str = "", legend: str | None = None) -> None:
    axes.set_title(title, loc="left")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if legend:
        options: dict[str, Any] = {"loc": legend, "fontsize": 8}
        axes.legend(**options)


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
