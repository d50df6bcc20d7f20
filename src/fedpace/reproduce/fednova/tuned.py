"""Local rates of the FedNova experiments: the paper's protocol, and each method at its own best.

Appendix I: the rate is tuned "for FedAvg with each local solver separately", and "FedNova uses the same client learning
rate as FedAvg". Claims of the paper are judged so (`tuned` cells), with a grid that goes on past the paper's where the
best rate is at its end. Best against best is a claim of ours: there FedNova has the rate that is best for FedNova
(`best` cells), and so have the variants of FedNova that Figure 7 compares among themselves. Proximal clients have the
rate of plain SGD. Synthetic data are drawn anew for every seed, and the paper tunes on the data that it judges: there
every data set has rates of its own, chosen on it by runs with other seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from fedpace.algorithm import Algorithm
from fedpace.reproduce import pictures as draw
from fedpace.reproduce.cell import Cell
from fedpace.reproduce.comparison import above, final_accuracy
from fedpace.reproduce.experiment import OWN, ClaimSource, Finding, Table, not_run, not_tested
from fedpace.reproduce.fednova import figure7
from fedpace.reproduce.fednova.by_data_set import listed
from fedpace.reproduce.fednova.testbeds import (
    BEDS,
    EPOCHS,
    LAST,
    METHODS,
    Testbed,
    cell,
    is_synthetic,
    name_of,
    rule,
)
from fedpace.reproduce.results import Results
from fedpace.reproduce.tuned_cells import at_tuned_rates, in_place_of, tuned
from fedpace.reproduce.tuning import Grid
from fedpace.reproduce.tuning import final_accuracy as tuned_accuracy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TUNED = ("SGD", "momentum")
SAME = "FedNova's best rate is FedAvg's: these are the runs of the paper's row."
ROWS = tuple((solver, epochs) for epochs in EPOCHS for solver in TUNED)


def cells(known: Results) -> list[Cell]:
    """Both methods at FedAvg's best rates, FedNova at its own; on synthetic data Figure 7 as well."""
    return [
        made
        for place in BEDS["quick"]
        for epochs in EPOCHS
        for method, label, rules in (("FedAvg", tuned, _at_fedavgs), ("FedNova", best, _at_its_own))
        for made in _cells(
            label, place, [rules(place, epochs, bed) for bed in beds_at(place, method, epochs, known)]
        )
    ]


def _cells(label: Callable[[str], str], place: str, rules: Sequence[Mapping[str, Algorithm]]) -> list[Cell]:
    """One for each name; where every data set has rates of its own, `rules` has one entry for each of them."""
    if not rules:
        return []
    bed = replace(BEDS["quick"][place], seeds=None)
    made = [
        cell(label(name), first, bed, tuple(each[name] for each in rules) if bed.data_sets else ())
        for name, first in rules[0].items()
    ]
    # so small a weight that they are plain SGD again: judged at a larger one (`proximal`)
    return [replace(each, by_name=", proximal, " in each.name) for each in made]


def _at_fedavgs(place: str, epochs: str, bed: Testbed) -> dict[str, Algorithm]:
    rules = {name_of(place, m, s, epochs): rule(m, s, epochs, bed) for m in METHODS for s in TUNED}
    if is_synthetic(place):
        every = _figure7(place, bed) | {
            name_of(place, "FedAvg", "proximal", epochs): rule("FedAvg", "proximal", epochs, bed)
        }
        rules |= {name: every[name] for name in figure7.proximal_names(place, epochs)}
    return rules


def _at_its_own(place: str, epochs: str, bed: Testbed) -> dict[str, Algorithm]:
    rules = {name_of(place, "FedNova", s, epochs): rule("FedNova", s, epochs, bed) for s in TUNED}
    if is_synthetic(place):
        every = _figure7(place, bed)
        rules |= {name: every[name] for name in figure7.momentum_names(place, epochs)}
    return rules


def _figure7(place: str, bed: Testbed) -> dict[str, Algorithm]:
    made = figure7.rules(place, bed)
    return made | figure7.control_rules(place, bed)


def best(name: str) -> str:
    return f"best {name}"


def as_judged(results: Results) -> Results:
    """Figure 6 at FedAvg's best rates, as in the paper, for every place where both methods were run there."""
    for place in BEDS["quick"]:
        results = at_tuned_rates(results, [name_of(place, m, *row) for m in METHODS for row in ROWS])
    return results


def as_judged_in_figure7(results: Results, place: str) -> Results:
    """Variants of FedNova at its own best rates."""
    own = [name for epochs in EPOCHS for name in figure7.momentum_names(place, epochs)]
    own += [name_of(place, "FedNova", *row) for row in ROWS]
    return in_place_of(results, {name: best(name) for name in own})


def grids() -> list[Grid]:
    """Of the quick edition; the full one has the paper's networks and rates."""
    return [
        _grid(own, bed, method, *row)
        for place in BEDS["quick"]
        for own, bed in _data_sets(place).items()
        for row in ROWS
        for method in METHODS
    ]


def _data_sets(place: str) -> dict[str, Testbed]:
    """The place itself; where every seed draws other data, each data set by its number, which is its seed."""
    bed = BEDS["quick"][place]
    numbered = {
        f"{place} no. {seed}": replace(bed, task=replace(bed.task, data_seed=seed)) for seed in bed.data_sets
    }
    return numbered or {place: bed}


def _grid(place: str, bed: Testbed, method: str, solver: str, epochs: str) -> Grid:
    name = name_of(place, method, solver, epochs)

    def tried(rate: float, _: str) -> Cell:
        made = rule(method, solver, epochs, _with_rate(bed, solver, rate))
        return replace(cell(f"rates {name}: {rate:g}", made, bed), seeds=1)

    return Grid(f"rate of {name}", bed.tried, tried, tuned_accuracy(LAST), seeds=bed.tuned_on)


def _with_rate(bed: Testbed, solver: str, rate: float) -> Testbed:
    return replace(bed, momentum_rate=rate) if solver == "momentum" else replace(bed, rate=rate)


def beds_at(place: str, method: str, epochs: str, known: Results) -> list[Testbed]:
    """With the rates that are best for a method and this work, on each data set; empty before all were tuned."""
    made = []
    for own, bed in _data_sets(place).items():
        for solver in TUNED:
            chosen = _grid(own, bed, method, solver, epochs).committed(known)
            if chosen is None:
                return []
            bed = _with_rate(bed, solver, chosen[0])
        made.append(bed)
    return made


def findings(results: Results) -> list[Finding]:
    """FedNova at its own rate against FedAvg at its own."""
    return [_own_rates(results, place, *row) for place in BEDS["quick"] for row in ROWS]


def _own_rates(results: Results, place: str, solver: str, epochs: str) -> Finding:
    claim = f"each at its own best rate FedNova ends above FedAvg, {solver}, {epochs}, {place}"
    pair = (tuned(name_of(place, "FedAvg", solver, epochs)), best(name_of(place, "FedNova", solver, epochs)))
    if not results.have(*pair):
        return not_run(claim, OWN)
    avg, nova = (results.final(name, last=LAST) for name in pair)
    ours = f"{avg:.1f} → {nova:.1f} %"
    at_fedavgs = results.cells.get(tuned(name_of(place, "FedNova", solver, epochs)))
    if at_fedavgs is not None and at_fedavgs.setting == results.cells[pair[1]].setting:
        return replace(not_tested(claim, OWN, ours, SAME), source=ClaimSource.OWN)
    comparison = above(results, pair[1], pair[0], final_accuracy(LAST))
    return Finding(claim, OWN, ours, comparisons=(comparison,), family="best rates")


def tables(results: Results) -> list[Table]:
    """The rates that were chosen."""
    rows = [
        (
            f"{place}, {method}, {epochs}",
            listed(bed.rate for bed in beds),
            listed(bed.momentum_rate for bed in beds),
        )
        for place in BEDS["quick"]
        for method in METHODS
        for epochs in EPOCHS
        if (beds := beds_at(place, method, epochs, results))
    ]
    return [Table("Local rates that were tuned", ("", *TUNED), rows)] if rows else []


def _shown(results: Results, place: str, solver: str, epochs: str) -> dict[str, str]:
    """The lines of a panel; FedNova has one where its own best rate is FedAvg's."""
    names = [tuned(name_of(place, method, solver, epochs)) for method in METHODS]
    own = best(name_of(place, "FedNova", solver, epochs))
    same = results.cells[own].setting == results.cells[names[1]].setting
    labels = ("FedAvg", "FedNova, own rate = FedAvg's" if same else "FedNova, FedAvg's rate")
    lines = dict(zip(labels, names, strict=True))
    return lines if same else lines | {"FedNova, its own rate": own}


def pictures(results: Results) -> dict[str, Figure]:
    """FedAvg and FedNova at FedAvg's best rate, FedNova at its own; a row for each place that was run."""
    places = [
        place
        for place in BEDS["quick"]
        if results.have(*(best(name_of(place, "FedNova", *row)) for row in ROWS))
    ]
    if not places:
        return {}
    with draw.style():
        figure, grid = draw.sheet(len(ROWS), len(places), width=3.6, sharey="row")
        for axes_of_place, place in zip(grid, places, strict=True):
            for axes, (solver, epochs) in zip(axes_of_place, ROWS, strict=True):
                draw.curves(axes, results, _shown(results, place, solver, epochs))
                draw.titled(axes, f"{place}, {solver}, {epochs}", "rounds", "", "lower right")
            axes_of_place[0].set_ylabel("test accuracy, %")
    return {"tuned": figure}
