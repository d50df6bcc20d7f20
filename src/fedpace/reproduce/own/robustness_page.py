"""Tables and pictures of the study of attacks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fedpace.reproduce import pictures as draw
from fedpace.reproduce.experiment import Table
from fedpace.reproduce.own.robustness_cells import (
    ATTACKS,
    CLIENTS,
    KEPT,
    MEAN,
    PACES,
    SHARES,
    SPLITS,
    breakdown,
    cell_name,
    columns,
    largest_survived,
    rules,
)
from fedpace.reproduce.results import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 4
# style and width: those of the median and of trimmed mean 0.4, which nearly agree, differ
LINES = (("-", 2.8), ((0, (3, 3)), 1.4), (":", 1.4))


def tables(edition: str, results: Results) -> list[Table]:
    return [
        *(
            _accuracies(edition, results, split, pace, share)
            for split, pace in columns()
            for share in SHARES[edition]
        ),
        _breakdowns(edition, results),
    ]


def _accuracies(edition: str, results: Results, split: str, pace: str, share: float) -> Table:
    rows = [
        (
            rule,
            f"{results.final(cell_name(split, pace, rule)):.1f}",
            *(f"{results.final(cell_name(split, pace, rule, attack, share)):.1f}" for attack in ATTACKS),
        )
        for rule in rules(CLIENTS)
    ]
    title = f"{split}, {pace}, {share:.0%} hostile: test accuracy %"
    return Table(title, ("", "no attack", *ATTACKS), rows)


def _breakdowns(edition: str, results: Results) -> Table:
    rows = []
    for rule in rules(CLIENTS):
        found = [largest_survived(edition, results, split, pace, rule) for split, pace in columns()]
        rows.append((rule, _point(rule), *("" if share is None else f"{share:g}" for share in found)))
    header = ("", "published breakdown point", *(f"{split}, {pace}" for split, pace in columns()))
    return Table(f"Largest share survived (within {KEPT:g} points under every attack)", header, rows)


def _point(rule: str) -> str:
    """The breakdown point, for both pacings where they differ."""
    points = {pace: breakdown(pace).get(rule) for pace in PACES}
    if None in points.values():
        return "depends on the spread"
    if len(set(points.values())) == 1:
        return f"{points[PACES[0]]:g}"
    return ", ".join(f"{pace} {point:g}" for pace, point in points.items())


def pictures(edition: str, results: Results) -> Mapping[str, Figure]:
    shown = {pace: _sheet(edition, results, pace) for pace in PACES}
    return {name: figure for name, figure in shown.items() if figure is not None}


def _sheet(edition: str, results: Results, pace: str) -> Figure | None:
    """Accuracy against the share of hostile clients: a panel for each attack and split, a line for each rule."""
    if not results.have(*(cell_name(split, pace, MEAN) for split in SPLITS)):
        return None
    attacks = list(ATTACKS)
    groups = [attacks[at : at + COLUMNS] for at in range(0, len(attacks), COLUMNS)]
    shown = [(attack, split) for group in groups for split in SPLITS for attack in group]
    with draw.style():
        figure, panels = draw.panels(len(shown), COLUMNS, width=2.45, height=2.1, sharex=True, sharey=True)
        for at, (axes, (attack, split)) in enumerate(zip(panels, shown, strict=True)):
            _lines(axes, edition, results, split, pace, attack)
            below = "share hostile" if at >= len(shown) - COLUMNS else ""
            draw.titled(axes, f"{attack}, {split}", below, "" if at % COLUMNS else "test accuracy, %")
        draw.legend_below(figure, panels[:1], 5)
    return figure


def _lines(axes: Axes, edition: str, results: Results, split: str, pace: str, attack: str) -> None:
    shares = (0.0, *SHARES[edition])
    for at, rule in enumerate(rules(CLIENTS)):
        names = [cell_name(split, pace, rule, attack if share else "", share) for share in shares]
        if results.have(*names):
            axes.plot(shares, [results.final(name).mean for name in names], label=rule, **_look(at))
    axes.set_ylim(0, 100)
    axes.set_xticks(shares[::2] if len(shares) > 3 else shares)


def _look(at: int) -> dict[str, Any]:
    """Thin broken lines above broad ones, so that rules that agree can be told apart."""
    line, width = LINES[at % len(LINES)]
    look = {"color": draw.colour(at), "marker": draw.marker(at), "linestyle": line, "linewidth": width}
    return {**look, "markersize": 4.5, "markerfacecolor": "none", "zorder": 2 + at % len(LINES)}
