"""A timeline as a picture: one row per client, time to the right."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from fedpace.errors import ConfigError
from fedpace.record.plot import STYLE
from fedpace.record.timeline import Stretch

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {"download": "#56B4E9", "train": "#0072B2", "wait": "#E69F00", "upload": "#009E73"}
WASTED = "#C8C8C8"  # training whose result nobody used
MOST_CLIENTS = 40


def gantt(rows: Sequence[Stretch], title: str = "", most_clients: int = MOST_CLIENTS) -> Figure:
    """The clients with the lowest numbers, `most_clients` of them."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    if not rows:
        raise ConfigError("a timeline to draw must have at least one activity; got none")
    clients = sorted({row.client for row in rows})[:most_clients]
    with rc_context({**STYLE, "axes.grid": False}):
        figure = Figure(figsize=(11, 1.6 + 0.22 * len(clients)), layout="constrained")
        axes = figure.subplots()
        _draw(axes, rows, {client: at for at, client in enumerate(clients)})
        axes.set_yticks(range(len(clients)), [str(client) for client in clients], fontsize=8)
        axes.set(xlabel="virtual seconds", ylabel="client", ylim=(len(clients) - 0.4, -0.6))
        axes.set_xlim(0, max(row.end for row in rows))
        legend = [Patch(color=colour, label=kind) for kind, colour in COLOURS.items()]
        legend.append(Patch(color=WASTED, label="train, never used"))
        figure.legend(handles=legend, loc="outside upper right", ncols=len(legend), fontsize=9)
        figure.suptitle(title, x=0.01, ha="left", fontweight="bold")
    return figure


def _draw(axes: Axes, rows: Iterable[Stretch], place: dict[int, int]) -> None:
    bars: dict[tuple[int, str], list[tuple[float, float]]] = defaultdict(list)
    for row in rows:
        if row.client in place and row.kind in COLOURS:
            bars[place[row.client], _colour(row)].append((row.start, row.end - row.start))
    for (at, colour), spans in bars.items():
        axes.broken_barh(spans, (at - 0.38, 0.76), facecolors=colour, edgecolor="white", linewidth=0.3)


def _colour(row: Stretch) -> str:
    unused = row.kind == "train" and row.fate not in ("consumed", "")
    return WASTED if unused else COLOURS[row.kind]
