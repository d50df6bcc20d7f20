"""DeFedAvg, Figures 2 to 5: training loss and test accuracy against time, for every n.

The runs behind Table 1 end at their target; these see the same seconds, with the rates of the table, and judge what
the paper says of training losses.
"""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import TYPE_CHECKING

from fedpace.reproduce import pictures as draw
from fedpace.reproduce.cell import Cell
from fedpace.reproduce.comparison import above
from fedpace.reproduce.defedavg import table1_cells as table1
from fedpace.reproduce.defedavg.setting import OURS, SAVING, SECONDS, N
from fedpace.reproduce.experiment import Finding, not_run
from fedpace.reproduce.outcome import Outcome
from fedpace.reproduce.results import Results
from fedpace.reproduce.training_curves import METRIC, WithTrainingLoss

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN_S = 10.0
EVERY = "0.5s"
METHODS = {
    split: tuple(method for method in methods if method != SAVING)
    for split, methods in table1.METHODS.items()
}


def cells(edition: str, known: Results) -> list[Cell]:
    """The judged cells of the table once more, past their target."""
    if edition == "full":
        return []
    every = {cell.name: cell for cell in table1.cells(edition, known)}
    return [
        _past_target(every[own], named(split, method, n))
        for split, methods in METHODS.items()
        for method in methods
        for n in table1.numbers(method)
        if (own := table1.name(split, method, n)) in every
    ]


def _past_target(cell: Cell, label: str) -> Cell:
    task = WithTrainingLoss(cell.task)
    return replace(
        cell,
        name=label,
        task=task,
        evaluate_every=EVERY,
        stop_at=None,
        stop_s=SHOWN_S,
    )


def named(split: str, method: str, n: int) -> str:
    return f"curve {table1.name(split, method, n)}"


def findings(edition: str, results: Results) -> list[Finding]:
    return [_training(results, split) for split in METHODS] if edition == "quick" else []


def _training(results: Results, split: str) -> Finding:
    """Section 4.2.1, of Figures 2 to 5: the most rapid decrease of training losses, in all experiments."""
    claim = f"DeFedAvg's training loss falls fastest, {table1.TITLES[split]}"
    published = "Figures 2 to 5: in all experiments"
    rivals = [method for method in SECONDS[split] if method != OURS]
    if not results.have(*(named(split, method, n) for method in (OURS, *rivals) for n in N)):
        return not_run(claim, published)
    lower = tuple(
        above(results, named(split, method, n), named(split, OURS, n), _mean_loss)
        for n in N
        for method in rivals
    )
    return Finding(
        claim,
        published,
        "; ".join(f"n = {n}: {_listed(results, split, (OURS, *rivals), n)}" for n in N),
        note=f"mean training loss over all clients' data in the first {SHOWN_S:g} s, at the rates of the table, which "
        "were chosen for the time to a test accuracy. This row was added after the curves had been drawn, with three "
        "seeds at first, which had the same verdict.",
        comparisons=lower,
        family="Figures 2, 3, 4, 5",
    )


def _listed(results: Results, split: str, methods: tuple[str, ...], n: int) -> str:
    return ", ".join(
        f"{method} {results.spread(named(split, method, n), _mean_loss).mean:.2f}" for method in methods
    )


def _mean_loss(outcome: Outcome) -> float | None:
    losses = outcome.values(METRIC)
    return statistics.fmean(losses) if losses else None


def picture(results: Results, split: str) -> Figure:
    """A column for every n; without these runs, as in the full edition: the table's, for its n, with test loss."""
    ran = all(results.have(named(split, method, n)) for method in ("FedAvg", OURS) for n in N)
    name, metric = (named, METRIC) if ran else (table1.name, "loss")
    columns = [n for n in N if results.have(name(split, OURS, n))] or N
    with draw.style():
        figure, grid = draw.sheet(len(columns), 2, width=3.6, sharey="row")
        for column, n in enumerate(columns):
            shown = {method: name(split, method, n) for method in METHODS[split]}
            draw.curves(grid[0][column], results, shown, draw.seconds, order=table1.ORDER)
            draw.curves(grid[1][column], results, shown, draw.seconds, metric, order=table1.ORDER)
            legend = "lower right" if results.have(name(split, OURS, n)) else None
            title = f"n = {n}, {table1.TITLES[split]}"
            draw.titled(grid[0][column], title, "virtual seconds", "", legend)
            draw.titled(grid[1][column], f"n = {n}", "virtual seconds")
        grid[0][0].set_ylabel("test accuracy, %")
        grid[1][0].set_ylabel(METRIC if ran else "test loss")
        if ran:
            grid[1][0].set_ylim(top=2.4)  # ln 10 at the start: what falls apart does not hide the others
    return figure
