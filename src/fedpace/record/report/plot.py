"""Curves of runs: accuracy and loss over steps, virtual time and traffic."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedpace.disk import files
from fedpace.errors import require
from fedpace.record.report.points import EPSILON, points, spans_decades
from fedpace.record.run.units import byte_unit
from fedpace.untrusted import visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from fedpace.record.run.run import Run

ENDINGS = (".png", ".svg", ".pdf")

MOST_METRICS = 6  # rows of one picture

# Okabe and Ito's colours: told apart by colour-blind readers and in print.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STYLE: dict[Any, Any] = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.edgecolor": "#888888",
    "axes.labelcolor": "#333333",
    "grid.color": "#e6e6e6",
    "xtick.color": "#555555",
    "ytick.color": "#555555",
    "font.size": 10,
    "legend.frameon": False,
}


def curves(runs: Mapping[str, Run], title: str = "") -> Figure:
    """Accuracy, loss and own metrics of each run over server steps, virtual seconds and bytes in both directions."""
    from matplotlib import rc_context

    from fedpace.display.figure import DisplayedFigure

    metrics = _metrics(runs)
    rows = metrics or ["loss"]
    with rc_context(STYLE):
        figure = DisplayedFigure(figsize=(11, 0.9 + 2.8 * len(rows)), layout="constrained")
        grid = figure.subplots(len(rows), 3, sharey="row", sharex="col", squeeze=False)
        for axes_of_row, metric in zip(grid, rows, strict=True):
            _draw_row(axes_of_row, metric, runs)
        for axes, label in zip(
            grid[-1], ("server steps", "virtual seconds", _traffic_label(runs)), strict=True
        ):
            axes.set_xlabel(label)
        if len(runs) > 1:
            grid[0][0].legend(loc="lower right" if "accuracy" in metrics else "upper right")
        figure.suptitle(words(title), x=0.01, ha="left", fontweight="bold")
    return figure


def _metrics(runs: Mapping[str, Run]) -> list[str]:
    """Accuracy and loss first, then a task's own, then what private runs spent."""
    known = dict.fromkeys(name for run in runs.values() for name in run.metrics)
    usual = [name for name in ("accuracy", "loss") if name in known]
    shown = [*usual, *(name for name in known if name not in usual)][:MOST_METRICS]
    private = EPSILON not in shown and any(run.privacy is not None for run in runs.values())
    return [*shown, *[EPSILON] * private]


def words(text: str) -> str:
    """Plain text: matplotlib would typeset anything between dollar signs, or refuse to."""
    return visible(text).replace("$", r"\$")


def require_picture(path: str | Path, what: str) -> Path:
    """The path, if a picture can be written there; ConfigError otherwise."""
    ending = Path(path).suffix
    require(ending in ENDINGS, what, str(path), f"a file that ends in {', '.join(ENDINGS)}")
    return files.require_writable(path, what)


def save(figure: Figure, path: str | Path) -> None:
    """Write the picture whole, in the format its name ends in."""
    require_picture(path, "picture")
    buffer = io.BytesIO()
    figure.savefig(buffer, format=Path(path).suffix[1:], dpi=150)
    files.write(path, buffer.getvalue())


def _draw_row(row: Sequence[Axes], metric: str, runs: Mapping[str, Run]) -> None:
    unit, _ = _traffic_unit(runs)
    for (label, run), colour in zip(runs.items(), _cycle(COLOURS, len(runs)), strict=True):
        *xs, ys = points(run, metric, unit)
        for axes, x in zip(row, xs, strict=True):
            marker = "o" if len(x) == 1 else None
            axes.plot(x, ys, color=colour, linewidth=1.8, label=words(label), marker=marker)
    row[0].set_ylabel(metric)
    losses = [
        record.metrics["loss"] for run in runs.values() for record in run.history if "loss" in record.metrics
    ]
    if metric == "loss" and spans_decades(losses):
        row[0].set_yscale("log")


def _traffic_unit(runs: Mapping[str, Run]) -> tuple[float, str]:
    return byte_unit(max(sum(r.bytes_up + r.bytes_down for r in run.history) for run in runs.values()))


def _traffic_label(runs: Mapping[str, Run]) -> str:
    return f"{_traffic_unit(runs)[1]} sent, both directions"


def _cycle(colours: Sequence[str], count: int) -> Iterable[str]:
    return (colours[at % len(colours)] for at in range(count))
