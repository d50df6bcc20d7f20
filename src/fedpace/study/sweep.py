"""Sweeps: runs over a grid of settings, ranked and drawn."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from fedpace.errors import Stop
from fedpace.record.report.plot import COLOURS, STYLE, words
from fedpace.record.run.metrics import rises
from fedpace.sim.observer import Observer, StepRecord
from fedpace.vector import Vector

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Settings = Mapping[str, Any]
Grid = Mapping[str, Sequence[Any]]
MOST_MAPS = 12


@dataclass(slots=True)
class Point:
    """One combination of settings and its results, one value per seed; a run that diverged has none."""

    settings: Settings
    values: list[float] = field(default_factory=list)
    states: list[str] = field(default_factory=list)
    real_seconds: float = 0.0

    @property
    def mean(self) -> float:
        """NaN where any seed diverged: a setting that fails for some seeds is not a good one."""
        return statistics.mean(self.values) if self.values and set(self.states) == {"done"} else math.nan

    @property
    def spread(self) -> float | None:
        return statistics.stdev(self.values) if len(self.values) > 1 else None


def best_first(points: Sequence[Point], metric: str) -> list[Point]:
    """Points that diverged come last."""
    sign = -1 if rises(metric) else 1
    return sorted(points, key=lambda point: (math.isnan(point.mean), sign * point.mean))


class Sampler(Protocol):
    """Chooses what to try next, `trials` times."""

    trials: int

    def ask(self) -> Settings | None:
        """None: nothing more, or nothing more until the next `tell`."""
        ...

    def tell(self, settings: Settings, value: float) -> None:
        """The result; NaN if it diverged."""
        ...


class Everything:
    """Every combination, in order."""

    def __init__(self, grid: Grid) -> None:
        self.trials = math.prod(map(len, grid.values()))
        names, values = list(grid), itertools.product(*grid.values())
        self._points: Iterator[Settings] = (dict(zip(names, each, strict=True)) for each in values)

    def ask(self) -> Settings | None:
        return next(self._points, None)

    def tell(self, settings: Settings, value: float) -> None: ...


class Hopeless(Observer):
    """Ends a run whose loss is not finite, or exceeds `factor` times its minimum so far."""

    def __init__(self, factor: float) -> None:
        self._factor, self._min = factor, math.inf

    def recorded(self, record: StepRecord, x: Vector) -> None:
        if not record.metrics:
            return
        loss = record.metrics.get("loss", math.inf)  # one that is not finite is left out of a history
        self._min = min(self._min, loss)
        if loss == math.inf or 0 < self._factor * self._min < loss:
            raise Stop(f"after step {record.version} the loss is {loss:.3g} and was {self._min:.3g}")

    def resumed(self, steps: Sequence[StepRecord]) -> None:
        self._min = min((step.metrics["loss"] for step in steps if "loss" in step.metrics), default=math.inf)


# ------------------------------------------------------------ pictures


def picture(points: Sequence[Point], grid: Grid, metric: str, title: str = "") -> Figure:
    """A line over one setting, a heat map over two, one map for each value of a third."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    names = sorted(grid, key=lambda name: -len(grid[name]))
    with rc_context({**STYLE, "axes.grid": len(names) == 1}):
        if len(names) == 1:
            figure = Figure(figsize=(7, 4.2), layout="constrained")
            _line(figure.subplots(), points, names[0], metric)
        else:
            figure = _maps(points, grid, names, metric)
        figure.suptitle(words(title), x=0.01, ha="left", fontweight="bold")
    return figure


def _line(axes: Axes, points: Sequence[Point], name: str, metric: str) -> None:
    labels = [_short(point.settings[name]) for point in points]
    axes.errorbar(
        range(len(points)),
        [point.mean for point in points],
        yerr=[point.spread or 0.0 for point in points],
        color=COLOURS[0],
        marker="o",
        capsize=3,
    )
    axes.set_xticks(range(len(points)), labels)
    axes.set(xlabel=name, ylabel=metric)


def _maps(points: Sequence[Point], grid: Grid, names: Sequence[str], metric: str) -> Figure:
    """The two settings with most values span the maps."""
    from matplotlib.figure import Figure

    across, down, *others = names
    panels = list(itertools.product(*(grid[name] for name in others)))[:MOST_MAPS]
    columns = min(len(panels), 4)
    rows = math.ceil(len(panels) / columns)
    width, height = 1.6 + 0.55 * len(grid[across]), 1.2 + 0.5 * len(grid[down])
    figure = Figure(figsize=(1.5 + columns * width, 0.8 + rows * height), layout="constrained")
    cells = figure.subplots(rows, columns, squeeze=False).ravel()
    means = [point.mean for point in points if not math.isnan(point.mean)] or [0.0]
    for axes, panel in zip(cells, panels, strict=False):
        here = dict(zip(others, panel, strict=True))
        image = _map(axes, points, grid, (across, down), here, (min(means), max(means)), metric)
        axes.set_title(", ".join(f"{name} {_short(value)}" for name, value in here.items()), fontsize=9)
    for axes in cells[len(panels) :]:
        axes.set_visible(False)
    figure.colorbar(image, ax=cells.tolist(), label=metric, shrink=0.8)
    return figure


def _map(
    axes: Axes,
    points: Sequence[Point],
    grid: Grid,
    names: tuple[str, str],
    here: Settings,
    span: tuple[float, float],
    metric: str,
) -> Any:
    """One heat map; what diverged is hatched."""
    across, down = names
    found = {
        (point.settings[down], point.settings[across]): point.mean
        for point in points
        if all(point.settings[name] == value for name, value in here.items())
    }
    table = [[found.get((y, x), math.nan) for x in grid[across]] for y in grid[down]]
    colours = "viridis" if rises(metric) else "viridis_r"
    axes.set_facecolor("#dddddd")
    image = axes.imshow(table, cmap=colours, vmin=span[0], vmax=span[1], aspect="auto", origin="lower")
    middle = (span[0] + span[1]) / 2
    for at_y, row in enumerate(table):
        for at_x, value in enumerate(row):
            dark = (value < middle) == rises(metric)
            shown = f"{value:.3f}" if rises(metric) else f"{value:.3g}"
            text = "diverged" if math.isnan(value) else shown
            colour = "#777777" if math.isnan(value) else "white" if dark else "black"
            axes.text(at_x, at_y, text, ha="center", va="center", fontsize=7, color=colour)
    axes.set_xticks(range(len(grid[across])), [_short(value) for value in grid[across]])
    axes.set_yticks(range(len(grid[down])), [_short(value) for value in grid[down]])
    axes.set(xlabel=across, ylabel=down)
    return image


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else words(str(value))
