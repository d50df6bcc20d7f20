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
from fedpace.reproduce.fednova import figure7, tuned
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
    rule,
)
from fedpace.reproduce.outcome import Outcome
from fedpace.reproduce.results import Results
from fedpace.reproduce.tables import at_the_end
from fedpace.reproduce.tuning import Grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HALF_MARGIN = 0.1  # of the rounds
SHOWN = "Figure 6 (CIFAR-10, VGG-11)"
FLOWER = Table(
    "For orientation: a public re-implementation (Flower), VGG-11 on CIFAR-10, FedAvg → FedNova, %",
    ("", "SGD", "momentum", "proximal"),
    (
        ("E = 2", "62.35 → 67.04", "70.78 → 73.01", "62.30 → 67.00"),
        ("E ~ U(2,5)", "64.30 → 70.54", "72.75 → 74.26", "64.47 → 69.25"),
    ),
)


def cells(edition: str, known: Results) -> list[Cell]:
    """At fixed rates; quick: at tuned ones, and the fixed ones, which stand beside what is judged, if asked for."""
    fixed = [
        cell(label, algorithm, bed)
        for place, bed in BEDS[edition].items()
        for label, algorithm in _rules(place, bed).items()
    ]
    if edition == "full":
        return fixed
    return [*(replace(each, by_name=True) for each in fixed), *tuned.cells(known)]


def grids(edition: str) -> list[Grid]:
    return tuned.grids() if edition == "quick" else []


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
        "the same with VGG-11 on CIFAR-10", "FedNova clearly better", "a run takes days on two cores."
    )
    return [*found, *tuned.findings(known), vgg] if edition == "quick" else found


def _better(results: Results, place: str, solver: str, epochs: str) -> Finding:
    claim = f"FedNova ends above FedAvg, {solver}, {epochs}, {place}"
    pair = [name_of(place, method, solver, epochs) for method in METHODS]
    if not results.have(*pair):
        return not_run(claim, SHOWN)
    avg, nova = (results.final(name, last=LAST) for name in pair)
    comparison = above(results, pair[1], pair[0], final_accuracy(LAST))
    text = f"{avg:.1f} → {nova:.1f} %"
    return Finding(claim, SHOWN, text, comparisons=(comparison,), family="Figure 6")


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
        found[seed] = _rounds_to(fast, level) / _rounds_to(slow, level)
    return found


def _rounds_to(outcome: Outcome, level: float) -> int:
    """The first evaluation whose mean with those before it is at this accuracy, or the last of all."""
    values = outcome.values()
    means = [sum(values[at - LAST : at]) / LAST for at in range(LAST, len(values) + 1)]
    at = next((at for at, mean in enumerate(means, LAST - 1) if mean >= level), -1)
    return outcome.points[at].version


# ----------------------------------------------------------------------------------- tables, pictures


def tables(edition: str, results: Results) -> list[Table]:
    return [at_the_end(results, last=LAST), *(tuned.tables(results) if edition == "quick" else ()), FLOWER]


def pictures(edition: str, results: Results) -> Mapping[str, Figure]:
    beds = {place: bed for place, bed in BEDS[edition].items() if results.have(*_rules(place, bed))}
    fixed = {"solvers": _at_fixed_rates(beds, results)} if beds else {}
    return fixed | (tuned.pictures(results) if edition == "quick" else {})


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
    momentum, proximal weight | 0.9; 0.005 (E = 2), 0.001 (U(2,5)) | the same
    server momentum | from the public code: undamped, factor 0.9 | the same
    """
)

EXPERIMENT = reproduction(
    "fednova-heterogeneous",
    """
    FedNova where clients do unequal work

    Wang et al., "Tackling the Objective Inconsistency Problem in Heterogeneous Federated Optimization", NeurIPS
    2020: Figures 6 and 7

    Clients hold different amounts of data and so take different numbers of local steps. FedNova divides each
    update by what its steps weigh; the paper finds it clearly above FedAvg for plain, momentum and proximal
    SGD.
    """,
    Procedure(cells, findings, tables, pictures, grids),
    {
        "quick": (
            *compared(
                """
                data, network | CIFAR-10 with VGG-11, Dirichlet 0.1; synthetic(1,1)
                    | synthetic(1,1) with softmax regression; digits (1,437 images) and Fashion-MNIST, one hidden layer
                    of 32, Dirichlet 0.1
                local rates | tuned for FedAvg with each solver and given to FedNova: 0.05, momentum 0.02; synthetic:
                    0.02
                    | `tuned`: the same procedure, for SGD (proximal clients have its rate) and momentum, for each kind
                    of work, and on every synthetic data set by itself; `best`: FedNova at its own best rate, its
                    variants too, a quarter of it where the server has momentum; other rows:
                    fixed, synthetic 0.001, digits 0.03, Fashion-MNIST 0.02, momentum two fifths of that; constant
                batch; rounds | 32, synthetic 20; 100 | Fashion-MNIST 32, digits 10, synthetic 20; 100
                """
            ),
            *_COMMON,
        ),
        "full": (
            *compared(
                """
                data, network | CIFAR-10 with VGG-11, Dirichlet 0.1; synthetic(1,1) | the same
                local rates | 0.05; momentum 0.02; synthetic 0.02 | the same, constant
                batch; rounds | 32, synthetic 20; 100 | the same; synthetic 200
                """
            ),
            *_COMMON,
        ),
    },
    notes={"quick": TRIED},
)
