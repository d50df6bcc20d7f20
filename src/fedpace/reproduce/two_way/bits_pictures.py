"""Accuracy against megabytes: the pictures of the page, a colour for each method and a line for each length of run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from fedpace.reproduce import pictures as draw
from fedpace.reproduce.results import Results, mean_curve
from fedpace.reproduce.two_way import cnn
from fedpace.reproduce.two_way.cells import BASELINES, PARTITION, PLACES, DataSplit, name_of, where
from fedpace.reproduce.two_way.tuned import WITH_A_CNN, short, short_lengths, tuned

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHOWN = ("FedAvg", "FedAMS", "FedCAMS 1/8", "FedNLAA", "FedBNLACA 1/8", "two_way 1/8", "two_way 1/32")
# FedBNLACA is left out: it is FedBACA on iid data, and within a point of it elsewhere
SHOWN_TUNED = ("FedAvg", "FedAdam", "FedAMS", "FedCAMS 1/8", "FedACA 1/8", "FedBACA 1/8", "two_way 1/8")
COLOURS = {method: draw.colour(at) for at, method in enumerate(SHOWN_TUNED)} | {"FedNLAA": "#7A5195"}
LINES = {10: "--", 7: "--", 36: ":"}  # of rivals in short runs that are drawn
TICKS = (5, 10, 20, 50, 100, 200)


def pictures(edition: str, results: Results) -> Mapping[str, Figure]:
    """Each method at its own best, where all of them were run; in the full edition as they come."""
    with draw.style():
        return _as_they_come(results) if edition == "full" else _tuned(results)


def _as_they_come(results: Results) -> dict[str, Figure]:
    figure, (row,) = draw.sheet(2, width=6.0, height=4.0)
    for axes, split in zip(row, PARTITION, strict=True):
        place = DataSplit("Fashion-MNIST", split)
        draw.curves(axes, results, {method: name_of(place, method) for method in SHOWN}, draw.megabytes)
        _axes(axes, place)
        axes.legend(loc="lower right", fontsize=8)
    return {"bits": figure}


def _tuned(results: Results) -> dict[str, Figure]:
    sheets: dict[str, Mapping[DataSplit, Sequence[str]]] = {
        "tuned": dict.fromkeys(PLACES, SHOWN_TUNED),
        "cnn": {place: cnn.METHODS[place.split] for place in WITH_A_CNN},
    }
    return {name: drawn for name, shown in sheets.items() if (drawn := _sheet(results, shown)) is not None}


def _sheet(results: Results, shown: Mapping[DataSplit, Sequence[str]]) -> Figure | None:
    ran = {
        place: methods
        for place, methods in shown.items()
        if results.have(*(tuned(place, method) for method in methods))
    }
    if not ran:
        return None
    figure, grid = draw.sheet(2, (len(ran) + 1) // 2, width=6.0, height=4.0)
    for axes, (place, methods) in zip(grid.flat, ran.items(), strict=False):
        _panel(axes, results, place, methods)
    return figure


def _panel(axes: Axes, results: Results, place: DataSplit, methods: Sequence[str]) -> None:
    """Methods with their bands; the rivals that smaller budgets are judged against as lines of the same colours."""
    for method, label in _labels(results, place, methods).items():
        runs = results.of(tuned(place, method))
        draw.curve(axes, runs, label, 0, draw.megabytes, color=COLOURS[method])
    drawn = [rounds for rounds in LINES if _short_lines(axes, results, place, rounds)]
    _axes(axes, place)
    usual = results.cells[tuned(place, methods[0])].rounds
    for rounds, line in {usual: "-", **{rounds: LINES[rounds] for rounds in drawn}}.items():
        axes.plot([], [], line, color="#555555", label=f"tuned for {rounds} rounds")
    axes.legend(loc="lower right", fontsize=8)


def _labels(results: Results, place: DataSplit, methods: Sequence[str]) -> dict[str, str]:
    """A method whose runs are those of an earlier one shares its line: FedACA is FedCAMS where its rule is silent."""
    labels: dict[str, str] = {}
    for method in methods:
        points = [run.points for run in results.of(tuned(place, method))]
        same = (m for m in labels if [run.points for run in results.of(tuned(place, m))] == points)
        if (other := next(same, None)) is None:
            labels[method] = method
        else:
            labels[other] = f"{labels[other]} and {method}: the same runs"
    return labels


def _short_lines(axes: Axes, results: Results, place: DataSplit, rounds: int) -> bool:
    names = {m: short(place, m, rounds) for m in BASELINES if rounds in short_lengths(place, m)}
    if not names or not results.have(*names.values()):
        return False
    for method, name in names.items():
        xs, mean, _ = mean_curve(results.of(name), draw.megabytes)
        axes.plot(xs, [100 * value for value in mean], LINES[rounds], color=COLOURS[method], linewidth=1.5)
    return True


def _axes(axes: Axes, place: DataSplit) -> None:
    axes.set_xscale("log")
    axes.minorticks_off()
    axes.set_xticks(TICKS, [str(tick) for tick in TICKS])
    draw.titled(axes, where(place), "MB sent, both directions (real bytes)", "test accuracy, %")
