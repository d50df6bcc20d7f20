"""Tables and pictures of the study of attacks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fedpace.record.report.plot import COLOURS
from fedpace.reproduce import pictures as draw
from fedpace.reproduce.experiment import Table
from fedpace.reproduce.own.robustness_cells import (
    ATTACKS,
    BREAKDOWN,
    CLIENTS,
    KEPT,
    MEAN,
    PACES,
    SHARES,
    SPLITS,
    cell_name,
    columns,
    largest_survived,
    rules,
)
from fedpace.reproduce.results import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
        published = f"{BREAKDOWN[rule]:g}" if rule in BREAKDOWN else "depends on the spread"
        rows.append((rule, published, *("" if share is None else f"{share:g}" for share in found)))
    header = ("", "published breakdown point", *(f"{split}, {pace}" for split, pace in columns()))
    return Table(f"Largest share survived (within {KEPT:g} points under every attack)", header, rows)


def pictures(edition: str, results: Results) -> Mapping[str, Figure]:
    shown = {pace: _sheet(edition, results, pace) for pace in PACES}
    return {name: figure for name, figure in shown.items() if figure is not None}


def _sheet(edition: str, results: Results, pace: str) -> Figure | None:
    """Accuracy against the share of hostile clients: a row per split, a column per attack, a line per rule."""
    if not results.have(*(cell_name(split, pace, MEAN) for split in SPLITS)):
        return None
    with draw.style():
        figure, axes = draw.sheet(len(ATTACKS), len(SPLITS), width=2.1, height=2.2, sharex=True, sharey=True)
        for across, attack in enumerate(ATTACKS):
            for down, split in enumerate(SPLITS):
                _lines(axes[down][across], edition, results, split, pace, attack)
                left = f"{split}\ntest accuracy %" if across == 0 else ""
                draw.titled(
                    axes[down][across], attack if down == 0 else "", "share hostile" if down else "", left
                )
        handles, labels = axes[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=5, fontsize=8)
    return figure


def _lines(axes: Any, edition: str, results: Results, split: str, pace: str, attack: str) -> None:
    shares = (0.0, *SHARES[edition])
    for at, rule in enumerate(rules(CLIENTS)):
        names = [cell_name(split, pace, rule, attack if share else "", share) for share in shares]
        if results.have(*names):
            heights = [results.final(name).mean for name in names]
            dashes = "-" if at < len(COLOURS) else "--"
            axes.plot(shares, heights, color=draw.colour(at), label=rule, linestyle=dashes)
    axes.set_ylim(0, 100)
    axes.set_xticks(shares[::2] if len(shares) > 3 else shares)
