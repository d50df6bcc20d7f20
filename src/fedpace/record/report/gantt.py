"""A client timeline as a Gantt chart: one row per client, time to the right, a line at every server step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fedpace.errors import ConfigError
from fedpace.record.report.plot import STYLE, words
from fedpace.record.run.timeline import SERVER, UNUSED, Stretch

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TRAIN, WASTED, PENDING = "#0072B2", "#C8C8C8", "#9FCBE8"
LINKS = {"download": "#56B4E9", "wait": "#E69F00", "upload": "#009E73"}
LEGEND = {
    "train": TRAIN,
    "train, unused": WASTED,
    "train, pending": PENDING,
    "download": LINKS["download"],
    "finished, waiting for a poll": LINKS["wait"],
    "upload": LINKS["upload"],
}
MOST_CLIENTS = 40
MOST_STEPS = 150  # more lines than this would hide the bars
MOST_NUMBERS = 200  # bars with the version written on them


def gantt(rows: Sequence[Stretch], title: str = "", most_clients: int = MOST_CLIENTS) -> Figure:
    """The clients with the lowest numbers, `most_clients` of them."""
    from matplotlib import rc_context
    from matplotlib.patches import Patch

    from fedpace.display.figure import DisplayedFigure

    clients = sorted({row.client for row in rows} - {SERVER})[:most_clients]
    if not clients:
        raise ConfigError("a timeline to draw must have at least one activity; got none")
    with rc_context({**STYLE, "axes.grid": False}):
        figure = DisplayedFigure(figsize=(11, 1.8 + 0.26 * len(clients)), layout="constrained")
        axes = figure.subplots()
        place = {client: at for at, client in enumerate(clients)}
        drawn = _draw(axes, [row for row in rows if row.client in place], place)
        _mark_steps(axes, [row for row in rows if row.kind == "step"])
        axes.set_yticks(range(len(clients)), [str(client) for client in clients], fontsize=8)
        axes.set(xlabel="virtual seconds", ylabel="client", ylim=(len(clients) - 0.4, -0.6))
        axes.set_xlim(0, 1.003 * max(row.end for row in rows))
        handles = [Patch(color=colour, label=what) for what, colour in LEGEND.items() if colour in drawn]
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=9)
        figure.suptitle(words(title), x=0.01, ha="left", fontweight="bold")
    return figure


def _draw(axes: Axes, rows: Sequence[Stretch], place: dict[int, int]) -> set[str]:
    """Training as broad bars with the number of its model, traffic and waiting as narrow ones; the colours used."""
    bars: dict[tuple[int, str], list[tuple[float, float]]] = defaultdict(list)
    for row in rows:
        colour = _colour(row)
        if colour:
            bars[place[row.client], colour].append((row.start, row.end - row.start))
    for (at, colour), spans in bars.items():
        broad = colour in (TRAIN, WASTED, PENDING)
        low, height = (at - 0.38, 0.6) if broad else (at + 0.24, 0.14)
        edge = "white" if broad else colour
        axes.broken_barh(spans, (low, height), facecolors=colour, edgecolor=edge, linewidth=0.3)
    _write_versions(axes, [row for row in rows if row.kind == "train"], place)
    return {colour for _, colour in bars}


def _write_versions(axes: Axes, trained: Sequence[Stretch], place: dict[int, int]) -> None:
    end = max((row.end for row in trained), default=0.0)
    if len(trained) > MOST_NUMBERS:
        return
    for row in trained:
        number = "" if row.version is None or row.version < 0 else str(row.version)
        if row.end - row.start > 0.012 * len(number) * end:
            middle, dark = (row.start + row.end) / 2, row.fate == "consumed"
            colour = "white" if dark else "#555555"
            axes.text(
                middle, place[row.client] - 0.08, number, color=colour, size=7, ha="center", va="center"
            )


def _mark_steps(axes: Axes, steps: Sequence[Stretch]) -> None:
    if len(steps) <= MOST_STEPS:
        for step in steps:
            axes.axvline(step.start, color="#333333", linewidth=0.6, alpha=0.6, zorder=0)


def _colour(row: Stretch) -> str | None:
    if row.kind != "train":
        return LINKS.get(row.kind)
    return WASTED if row.fate in UNUSED else PENDING if row.fate == "pending" else TRAIN
