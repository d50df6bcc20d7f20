"""Local rates of the FedNova experiments: the paper's protocol, and each method at its own best.

Appendix I: the rate is tuned "for FedAvg with each local solver separately", and "FedNova uses the same client learning
rate as FedAvg". Claims of the paper are judged so (`tuned` cells). Best against best is a claim of ours: there FedNova
has the rate that is best for FedNova (`best` cells). By the rule that cut the grid, both kinds of work have the rate
that is best at E = 2. Proximal clients, whose runs are those of plain SGD, and Figure 7 keep the fixed rates.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fedpace.reproduce import pictures as draw
from fedpace.reproduce.cell import Cell
from fedpace.reproduce.comparison import above, final_accuracy
from fedpace.reproduce.experiment import OWN, Finding, Table, not_run
from fedpace.reproduce.fednova.testbeds import (
    BEDS,
    EPOCHS,
    LAST,
    METHODS,
    Testbed,
    cell,
    name_of,
    rule,
)
from fedpace.reproduce.results import Results
from fedpace.reproduce.tuned_cells import at_tuned_rates, tuned
from fedpace.reproduce.tuning import Grid
from fedpace.reproduce.tuning import final_accuracy as tuned_accuracy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TUNED = ("SGD", "momentum")
ROWS = tuple((method, solver, epochs) for method in METHODS for solver in TUNED for epochs in EPOCHS)


def cells(known: Results) -> list[Cell]:
    """The grids; both methods at FedAvg's best rates; FedNova at its own."""
    found = [tried for grid in grids() for tried in grid.cells()]
    for place, bed in BEDS["quick"].items():
        if (of_fedavg := bed_at(place, "FedAvg", known)) is not None:
            found += [cell(tuned(name_of(place, *row)), rule(*row, of_fedavg), bed) for row in ROWS]
        if (own := bed_at(place, "FedNova", known)) is not None:
            found += [
                cell(best(place, *row[1:]), rule(*row, own), bed) for row in ROWS if row[0] == "FedNova"
            ]
    return found


def as_judged(results: Results) -> Results:
    """At FedAvg's best rates, as in the paper, for every place where both methods were run there."""
    for place in BEDS["quick"]:
        results = at_tuned_rates(results, [name_of(place, *row) for row in ROWS])
    return results


def best(place: str, solver: str, epochs: str) -> str:
    return f"best {name_of(place, 'FedNova', solver, epochs)}"


def grids() -> list[Grid]:
    """Of the quick edition; the full one has the paper's networks and rates."""
    return [_grid(place, method, solver) for place in BEDS["quick"] for solver in TUNED for method in METHODS]


def _grid(place: str, method: str, solver: str) -> Grid:
    bed = BEDS["quick"][place]

    def tried(rate: float, _: str) -> Cell:
        made = rule(method, solver, "E = 2", _with_rate(bed, solver, rate))
        return replace(cell(f"rates {place} {method}, {solver}: {rate:g}", made, bed), seeds=1)

    name = f"rate of {method}, {solver}, {place}"
    return Grid(name, bed.tried, tried, tuned_accuracy(LAST))


def _with_rate(bed: Testbed, solver: str, rate: float) -> Testbed:
    return replace(bed, momentum_rate=rate) if solver == "momentum" else replace(bed, rate=rate)


def bed_at(place: str, method: str, known: Results) -> Testbed | None:
    """With the rates that are best for a method; None while a grid has not been run."""
    bed = BEDS["quick"][place]
    for solver in TUNED:
        chosen = _grid(place, method, solver).chosen(known)
        if chosen is None:
            return None
        bed = _with_rate(bed, solver, float(chosen.name.split()[-1]))
    return bed


def findings(results: Results) -> list[Finding]:
    """FedNova at its own rate against FedAvg at its own."""
    return [
        _own_rates(results, place, solver, epochs)
        for place in BEDS["quick"]
        for epochs in EPOCHS
        for solver in TUNED
    ]


def _own_rates(results: Results, place: str, solver: str, epochs: str) -> Finding:
    claim = f"each at its own best rate FedNova ends above FedAvg, {solver}, {epochs}, {place}"
    pair = (tuned(name_of(place, "FedAvg", solver, epochs)), best(place, solver, epochs))
    if not results.have(*pair):
        return not_run(claim, OWN)
    avg, nova = (results.final(name, last=LAST) for name in pair)
    comparison = above(results, pair[1], pair[0], final_accuracy(LAST))
    return Finding(claim, OWN, f"{avg:.1f} → {nova:.1f} %", comparisons=(comparison,), family="best rates")


def tables(results: Results) -> list[Table]:
    """The rates that were chosen."""
    rows = [
        (f"{place}, {method}", f"{bed.rate:g}", f"{bed.momentum_rate:g}")
        for place in BEDS["quick"]
        for method in METHODS
        if (bed := bed_at(place, method, results)) is not None
    ]
    return [Table("Local rates that were tuned", ("", *TUNED), rows)] if rows else []


def pictures(results: Results) -> dict[str, Figure]:
    """FedAvg and FedNova at FedAvg's best rate, FedNova at its own; a row for each place that was run."""
    places = [
        place for place in BEDS["quick"] if results.have(*(best(place, s, e) for s in TUNED for e in EPOCHS))
    ]
    if not places:
        return {}
    with draw.style():
        figure, grid = draw.sheet(4, len(places), width=3.6, sharey="row")
        for row, place in zip(grid, places, strict=True):
            for axes, (solver, epochs) in zip(row, ((s, e) for s in TUNED for e in EPOCHS), strict=True):
                shown = {m: tuned(name_of(place, m, solver, epochs)) for m in METHODS}
                draw.curves(axes, results, shown | {"FedNova, its own rate": best(place, solver, epochs)})
                draw.titled(axes, f"{place}, {solver}, {epochs}", "rounds", "", "lower right")
            row[0].set_ylabel("test accuracy, %")
    return {"tuned": figure}
