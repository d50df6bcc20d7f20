"""FedNova against FedAvg where clients do different amounts of work: three local solvers, two kinds of work."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fedpace.algorithm import Algorithm
from fedpace.reproduce import pictures as draw
from fedpace.reproduce.cell import Cell
from fedpace.reproduce.comparison import Comparison, above, final_accuracy
from fedpace.reproduce.experiment import Finding, Procedure, Table, compared, not_run, reproduction
from fedpace.reproduce.fednova import figure5, figure7, proximal, table1, tuned
from fedpace.reproduce.fednova.heterogeneous_notes import TRIED
from fedpace.reproduce.fednova.testbeds import (
    BEDS,
    EPOCHS,
    LAST,
    METHODS,
    SOLVERS,
    Testbed,
    cell,
    is_synthetic,
    name_of,
    rounds_to,
    rule,
)
from fedpace.reproduce.results import Results
from fedpace.reproduce.tables import at_the_end
from fedpace.reproduce.tuning import Grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HALF_MARGIN = 0.1  # of the rounds
SHOWN = "Figure 6 (CIFAR-10, VGG-11)"


def cells(edition: str, known: Results) -> list[Cell]:
    """At fixed rates; quick: at tuned ones, and the fixed ones, which stand beside what is judged, if asked for."""
    fixed = [
        cell(label, algorithm, bed)
        for place, bed in BEDS[edition].items()
        for label, algorithm in _rules(place, bed).items()
    ]
    if edition == "full":
        return fixed
    own = (*figure5.cells(known), *proximal.cells(known))
    return [*(replace(each, by_name=True) for each in fixed), *tuned.cells(known), *own]


def grids(edition: str) -> list[Grid]:
    return [*tuned.grids(), *figure5.grids(), *proximal.grids()] if edition == "quick" else []


def _rules(place: str, bed: Testbed) -> dict[str, Algorithm]:
    made = {
        name_of(place, method, solver, epochs): rule(method, solver, epochs, bed)
        for method in METHODS
        for solver in bed.solvers
        for epochs in EPOCHS
    }
    return made | (figure7.rules(place, bed) if is_synthetic(place) else {})


# ------------------------------------------------------------------------------------------- judgement


def findings(edition: str, known: Results) -> list[Finding]:
    beds, results = BEDS[edition], tuned.as_judged(known) if edition == "quick" else known
    found = [
        _better(results, place, solver, epochs)
        for place, bed in beds.items()
        for epochs in EPOCHS
        for solver in bed.solvers
        if solver != "proximal"  # so small a weight that these rows would count plain SGD nearly twice
    ]
    found += [_rounds(results, place, bed) for place, bed in beds.items()]
    synthetic = next(iter(beds))
    found += figure7.findings(
        tuned.as_judged_in_figure7(known, synthetic) if edition == "quick" else known, synthetic
    )
    vgg = not_run(
        "the same with VGG-11 on CIFAR-10", "Table 1: 5.6 to 9.7 points", "a run takes days on two cores."
    )
    if edition == "full":
        return found
    return [*figure5.findings(known), *found, *proximal.findings(known), *tuned.findings(known), vgg]


def _better(results: Results, place: str, solver: str, epochs: str) -> Finding:
    claim = f"FedNova ends above FedAvg, {solver}, {epochs}, {place}"
    pair = [name_of(place, method, solver, epochs) for method in METHODS]
    published = table1.published(solver, epochs)
    if not results.have(*pair):
        return not_run(claim, published)
    avg, nova = (results.final(name, last=LAST) for name in pair)
    comparison = above(results, pair[1], pair[0], final_accuracy(LAST))
    text = f"{avg:.1f} → {nova:.1f} %"
    return Finding(claim, published, text, comparisons=(comparison,), family="Figure 6")


def _rounds(results: Results, place: str, bed: Testbed) -> Finding:
    claim = f"FedNova needs about half of FedAvg's rounds for the same accuracy, {place}"
    pairs = {
        f"{solver}, {epochs}": [name_of(place, method, solver, epochs) for method in METHODS]
        for solver in bed.solvers
        if solver != "proximal"
        for epochs in EPOCHS
    }
    if not results.have(*(name for pair in pairs.values() for name in pair)):
        return not_run(claim, f"{SHOWN}: about half")
    shares = {row: shares_of_rounds(results, *pair) for row, pair in pairs.items()}
    half = tuple(
        Comparison(row, tuple(own), tuple(own.values()), (0.5,) * len(own), HALF_MARGIN)
        for row, own in shares.items()
    )
    return Finding(
        claim,
        f"{SHOWN}: about half",
        ", ".join(f"{row}: {statistics.fmean(own.values()):.2f}" for row, own in shares.items()),
        note=f"FedNova's rounds over FedAvg's to the accuracy that FedAvg ends at, both read on curves of means of "
        f"{LAST} evaluations; half within {HALF_MARGIN}, on both sides, in every row. (At first the first single "
        "evaluation of FedNova at that accuracy counted, as a share of all rounds, and the mean over the rows: by that "
        "measure FedAvg itself took 0.3 to 0.7 on digits and Fashion-MNIST.)",
        comparisons=half,
        family="Figure 6",
    )


def shares_of_rounds(results: Results, avg: str, nova: str) -> dict[int, float]:
    """By seed: FedNova's rounds over FedAvg's; where FedNova does not get there, all of its rounds."""
    sides = [results.outcomes[name] for name in (avg, nova)]
    found = {}
    for seed in sorted(sides[0].keys() & sides[1].keys()):
        slow, fast = (side[seed] for side in sides)
        level = slow.final("accuracy", LAST)
        found[seed] = rounds_to(fast, level) / rounds_to(slow, level)
    return found


# ----------------------------------------------------------------------------------- tables, pictures


def tables(edition: str, results: Results) -> list[Table]:
    chosen = [*tuned.tables(results), *_own_rates(results)] if edition == "quick" else []
    return [at_the_end(results, last=LAST), *chosen, table1.table()]


def _own_rates(results: Results) -> list[Table]:
    rows = [*figure5.rates(results), *proximal.rates(results)]
    title = "Local rates on data sets no. 20 to 29, with how many have each"
    return [Table(title, ("", "rates"), rows)] if rows else []


def pictures(edition: str, results: Results) -> Mapping[str, Figure]:
    beds = {place: bed for place, bed in BEDS[edition].items() if results.have(*_rules(place, bed))}
    fixed = {"solvers": _at_fixed_rates(beds, results)} if beds else {}
    if edition == "full":
        return fixed
    return {**figure5.pictures(results), **fixed, **tuned.pictures(results)}


def _at_fixed_rates(beds: Mapping[str, Testbed], results: Results) -> Figure:
    with draw.style():
        figure, grid = draw.sheet(4, len(beds), width=3.6, sharey="row")
        for row, (place, bed) in zip(grid, beds.items(), strict=True):
            for axes, solver in zip(row, SOLVERS, strict=False):
                _panel(axes, results, place, bed, solver)
            if is_synthetic(place):
                draw.curves(
                    row[3], results, {f"momentum: {w}": figure7.variant(place, w) for w in figure7.VARIANTS}
                )
                draw.titled(row[3], "FedNova, E ~ U(2,5), fixed rate", "rounds", "", "lower right")
            else:
                row[3].set_axis_off()
            row[0].set_ylabel("test accuracy, %")
    return figure


def _panel(axes: Axes, results: Results, place: str, bed: Testbed, solver: str) -> None:
    if solver not in bed.solvers:
        axes.set_axis_off()
        return
    for at, (method, line) in enumerate((m, e) for m in METHODS for e in EPOCHS):
        look: dict[str, Any] = {"color": draw.colour(at // 2), "linestyle": "-" if line == "E = 2" else "--"}
        runs = results.of(name_of(place, method, solver, line))
        draw.curve(axes, runs, f"{method}, {line}", at, **look)
    draw.titled(axes, f"{place}, {solver}, fixed rate", "rounds", "", "lower right")


_COMMON = compared(
    """
    clients | 16, all in every round, weights by samples (CIFAR-10); 30 (synthetic) | the same
    local work | E = 2, or U(2,5) drawn per client and round | the same; 2..5 inclusive
    momentum, proximal weight | 0.9; 0.005 (E = 2), 0.001 (U(2,5)), synthetic 1 | the same;
        proximal clients are judged at 1
    server momentum | from the public code: undamped, factor 0.9 | the same
    """
)

EXPERIMENT = reproduction(
    "fednova-heterogeneous",
    """
    FedNova where clients do unequal work

    Wang et al., "Tackling the Objective Inconsistency Problem in Heterogeneous Federated Optimization", NeurIPS
    2020: Figures 5 to 7, Table 1

    Clients hold different amounts of data and so take different numbers of local steps. FedNova divides each
    update by what its steps weigh; the paper finds it clearly above FedAvg for plain, momentum and proximal
    SGD. Figure 5 is run in its own setting, synthetic data with logistic regression; Table 1 and Figures 6 and 7,
    there CIFAR-10 with VGG-11, on smaller tasks.
    """,
    Procedure(cells, findings, tables, pictures, grids),
    {
        "quick": (
            *compared(
                """
                data, network | CIFAR-10 with VGG-11, Dirichlet 0.1; synthetic(1,1)
                    | synthetic(1,1) with softmax regression; digits (1,437 images) and Fashion-MNIST, one hidden layer
                    of 32, Dirichlet 0.1
                Figure 5, data | synthetic(1,1), 30 clients, sizes by a power law, logistic regression | the same, ten
                    data sets that nobody had looked at, no. 20 to 29; the rows at μ = 1 have them too
                Figure 5, clients and work | all, E = 5; 30 % sampled, E = 5; 30 % sampled, E ~ U(1,5) | the same;
                    sampled uniformly without replacement, weights and τ_eff of the sampled (Algorithm 1), for all
                    methods alike
                Figure 5, local rates | tuned for FedAvg, FedNova has FedAvg's; decayed by a constant factor after 50
                    and 75 % of the rounds | the same on every data set by itself, FedProx (μ = 1) tuned too; by a tenth
                    each time (the factor is not stated; it is that of the public code for CIFAR-10)
                Figure 5, batch; rounds | 20; not stated | 20; 100
                local rates elsewhere | tuned for FedAvg with each solver and given to FedNova: 0.05, momentum 0.02;
                    synthetic: 0.02; decayed after 50 and 75 % of the rounds
                    | constant. `tuned`: the same procedure, for SGD (proximal clients with the printed μ have its rate)
                    and momentum, for each kind of work, and on every synthetic data set by itself; `best`: FedNova at
                    its own best rate, its variants too, a quarter of it where the server has momentum; μ = 1: tuned for
                    FedProx on no. 20 to 29; other rows: fixed, synthetic 0.001, digits 0.03, Fashion-MNIST 0.02,
                    momentum two fifths of that
                batch; rounds | 32, synthetic 20; 100 | Fashion-MNIST 32, digits 10, synthetic 20; 100
                """
            ),
            *_COMMON,
        ),
        "full": (
            *compared(
                """
                data, network | CIFAR-10 with VGG-11, Dirichlet 0.1; synthetic(1,1) | the same
                local rates | 0.05; momentum 0.02; synthetic 0.02; decayed after 50 and 75 % of the rounds
                    | the same, constant
                batch; rounds | 32, synthetic 20; 100 | the same; synthetic 200
                """
            ),
            *_COMMON,
        ),
    },
    notes={"quick": TRIED},
)
