"""What none of the papers has: cached calibration, staged server momentum and two-way links together, on one clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from fedpace.reproduce import pictures as draw
from fedpace.reproduce.cell import Cell, NamedTask
from fedpace.reproduce.comparison import cheaper, final_accuracy, no_worse
from fedpace.reproduce.experiment import (
    OWN,
    Finding,
    Procedure,
    SettingRow,
    Table,
    compared,
    not_run,
    reproduction,
)
from fedpace.reproduce.own import combined_notes
from fedpace.reproduce.own.combined_rules import (
    BETA,
    DEFEDAVG,
    METHODS,
    OURS,
    PAPERS,
    ROUNDS,
    STAGED,
    GridRates,
)
from fedpace.reproduce.results import Results, SeedSpread
from fedpace.reproduce.tuning import Grid, soonest
from fedpace.sim import Population

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TASK = {
    "quick": NamedTask("fashion-mnist", "dirichlet:0.1", "mlp:32"),
    "full": NamedTask("fashion-mnist", "dirichlet:0.1", "cnn"),
}
SIZE = {"quick": 25_450, "full": 582_026}  # parameters
TARGETS = {"quick": (0.8, 0.83), "full": (0.85, 0.88)}  # rates are chosen for each
CAP_S = {"quick": 30.0, "full": 300.0}
# every method has the same grid: server rates (of the second stage; the first has twice as much), local rates
RATES, LOCAL_RATES = (0.3, 1.0), ("0.0125", "0.025", "0.05", "0.1", "0.2")
# ... and those with stages how long these are together: in 30 s a synchronous method takes about 60 steps, ours 180
STAGES = (7, 20, 60, 180)
LAST = 3  # evaluations whose mean is a run's accuracy


def devices(edition: str, method: str) -> Population:
    """DeFedAvg's devices; links so fast that the whole model takes the 0.044 s of the paper, each byte its share.

    DeFedAvg's clients receive and send while they train, as on its own page (section 2.1.1 of its paper).
    """
    per_byte = 0.044 / (4 * SIZE[edition])
    step = Population.uniform_slowdown().step_s
    mode = "overlap" if method == DEFEDAVG else "serial"
    return Population(step_s=step, up_s_per_byte=per_byte, down_s_per_byte=per_byte, mode=mode)


def name(method: str, target: float) -> str:
    """A method at the rates that were chosen for a target."""
    return f"{method}, best to {target:.0%}"


def cells(edition: str, known: Results) -> list[Cell]:
    """The grid, whose runs serve both targets; then every method at its rates for each, the last run to the end."""
    first, last = TARGETS[edition]
    every = {cell.name: cell for grid in grids(edition) for cell in grid.cells()}
    for target in (first, last):
        for method in METHODS:
            grid = _grid(edition, method, target)
            if (tuned := grid.chosen(known)) is not None:
                stop = None if target == last else target
                every[grid.name] = replace(tuned, name=grid.name, stop_at=stop, seeds=None)
    return list(every.values())


def grids(edition: str) -> list[Grid]:
    return [_grid(edition, method, target) for method in METHODS for target in TARGETS[edition]]


def _grid(edition: str, method: str, target: float) -> Grid:
    """The rates that are soonest at the target, or get nearest."""

    def cell(rate: float, others: str) -> Cell:
        return _cell(edition, f"rates {rate:g} {others} {method}", method, _rates(rate, others))

    merit = soonest(target, draw.seconds, LAST)
    return Grid(name(method, target), RATES, cell, merit, _others(method))


def _others(method: str) -> tuple[str, ...]:
    """Local rates, and the length of the stages where a method has some."""
    if method not in STAGED:
        return LOCAL_RATES
    return tuple(f"{local}, stages {length}" for local in LOCAL_RATES for length in STAGES)


def _rates(server: float, others: str) -> GridRates:
    local, _, length = others.partition(", stages ")
    return GridRates(server, float(local), int(length)) if length else GridRates(server, float(local))


def chosen(edition: str, method: str, target: float, known: Results) -> str:
    """The rates of a method, for its table."""
    found = _grid(edition, method, target).chosen(known)
    setting = "" if found is None else found.name.removeprefix("rates ").removesuffix(f" {method}")
    return setting.replace(" ", ", ", 1)


def _cell(edition: str, label: str, method: str, rates: GridRates) -> Cell:
    return Cell(
        name=label,
        algorithm=METHODS[method](rates),
        task=TASK[edition],
        population=devices(edition, method),
        rounds=ROUNDS,
        evaluate_every="0.5s",
        stop_at=TARGETS[edition][-1],
        stop_s=CAP_S[edition],
        seeds=1,
    )


# ------------------------------------------------------------------------------------------- judgement


def findings(edition: str, results: Results) -> list[Finding]:
    return [
        *(check(results, target) for target in TARGETS[edition] for check in (_sooner, _lighter)),
        *(_against(edition, results, method) for method in PAPERS),
    ]


def seconds(results: Results, method: str, target: float) -> SeedSpread:
    return results.to_target(name(method, target), target, draw.seconds)


def megabytes(results: Results, method: str, target: float) -> SeedSpread:
    return results.to_target(name(method, target), target, draw.megabytes)


def _sooner(results: Results, target: float) -> Finding:
    claim = f"everything together reaches {target:.0%} sooner than each of the four methods it is made of"
    return _below_all(claim, results, target, draw.seconds, "s")


def _lighter(results: Results, target: float) -> Finding:
    return _below_all(f"... and with fewer bytes until {target:.0%}", results, target, draw.megabytes, "MB")


def _below_all(claim: str, results: Results, target: float, cost: draw.X, unit: str) -> Finding:
    """Whether ours reaches the target at a lower cost than every method it is made of."""
    cell = {method: name(method, target) for method in (OURS, *PAPERS)}
    if not results.have(*cell.values()):
        return not_run(claim, OWN)
    took = {method: results.to_target(cell[method], target, cost) for method in cell}
    text = ", ".join(f"{method} {_with_unit(value, unit)}" for method, value in took.items())
    less = tuple(cheaper(results, cell[OURS], cell[method], target, cost) for method in PAPERS)
    return Finding(claim, OWN, text, note=_missing(took), comparisons=less, family="Measured")


def _missing(took: Mapping[str, SeedSpread]) -> str:
    """Who did not get there: a run counts with all it spent, or as a tie where its rival has spent more."""
    late = [f"{m} ({spread.missed} runs)" for m, spread in took.items() if spread.missed]
    told = (
        "runs that do not get there count with all they spent, or as ties with rivals that have spent more: "
    )
    return f"{told}{', '.join(late)}." if late else ""


def _with_unit(value: SeedSpread, unit: str) -> str:
    return f"{value:.1f} {unit}" if value.values else f"{value:.1f}"


def _against(edition: str, results: Results, method: str) -> Finding:
    claim = f"everything together not more than 0.5 points below {method} at equal time"
    mine, other = (name(each, TARGETS[edition][-1]) for each in (OURS, method))
    if not results.have(mine, other):
        return not_run(claim, OWN)
    ours, theirs = (results.final(cell, last=LAST) for cell in (mine, other))
    text = f"{ours:.1f} % against {theirs:.1f} % after {CAP_S[edition]:.0f} s or {ROUNDS} steps"
    comparison = no_worse(results, mine, other, final_accuracy(LAST))
    return Finding(claim, OWN, text, comparisons=(comparison,), family="final accuracy")


# ----------------------------------------------------------------------------------- tables, pictures


def tables(edition: str, results: Results) -> list[Table]:
    targets = TARGETS[edition]
    rows = [
        (
            method,
            *(chosen(edition, method, target, results) for target in targets),
            *(f"{seconds(results, method, target):.1f}" for target in targets),
            *(f"{megabytes(results, method, target):.1f}" for target in targets),
            f"{results.final(name(method, targets[-1]), last=LAST):.1f}",
            f"{results.spread(name(method, targets[-1]), lambda outcome: outcome.mean_staleness):.2f}",
        )
        for method in METHODS
    ]
    goals = [f"{what} to {target:.0%}" for what in ("rates", "seconds", "MB") for target in targets]
    return [Table("Measured", ("", *goals, "final accuracy %", "mean staleness"), rows)]


def pictures(edition: str, results: Results) -> Mapping[str, Figure]:
    shown = {m: name(m, TARGETS[edition][-1]) for m in (OURS, *PAPERS, "FedAvg")}
    with draw.style():
        figure, ((left, right),) = draw.sheet(2, width=5.6, height=3.8, sharey=True)
        draw.curves(left, results, shown, draw.seconds, smooth=2)
        draw.titled(left, "Accuracy against time", "virtual seconds", "test accuracy, %", "lower right")
        draw.curves(right, results, shown, draw.megabytes, smooth=2)
        right.set_xscale("log")
        draw.titled(right, "Accuracy against traffic", "MB sent, both directions", "")
        for axes in (left, right):
            axes.axhline(100 * TARGETS[edition][-1], color="#999999", linestyle=":", linewidth=1)
            axes.set_ylim(bottom=40)
    return {"together": figure}


def _settings(edition: str) -> tuple[SettingRow, ...]:
    task, rates = TASK[edition], ", ".join(f"{rate:g}" for rate in RATES)
    locally, lengths = ", ".join(LOCAL_RATES), ", ".join(map(str, STAGES))
    return compared(
        f"""
        data, network | differs from paper to paper | {task.name}, {task.model}, 100 clients, {task.partition}
        devices | DeFedAvg: slowdown U[1, 5], 0.044 s per model each way
            | the same, each byte its share of the 0.044 s; transfers in series, DeFedAvg's while its clients train
        local work | DeFedAvg: 50 steps, batch 10, rate 0.05 | 50 steps, batch 10, the rate tuned
        per server step | CA2FL: 20 active clients, buffer 10
            | 10 updates for all methods; 20 active clients where the method limits concurrency
        rates | each paper tunes its own | the same grid for every method and each target: server {rates} (times 0.03 in
            FedBNLACA), one beyond where the best is at an end, local {locally}; the soonest at
            the target, on seeds of their own (tuning.json); stages 2, 1, 1/2 of the server rate over {lengths} steps,
            tuned too; beta = nu = {BETA}, not tuned
        margins |  | sooner, fewer bytes: none; not more than 0.5 points below: 0.5 points
        links |  | top-k 1/8 with error feedback up, differences to what the client holds down
        """
    )


EXPERIMENT = reproduction(
    "combined-methods",
    """
    What none of the papers has: everything together

    Ours: CA2FL's cache, FedGM's stages and two-way links under DeFedAvg's clock

    Each paper improves one rule of the journey: who is heard (DeFedAvg, FedBuff), how updates are combined
    (CA2FL), how the server steps (FedGM), what crosses the link. Here they are one algorithm, run against each.
    """,
    Procedure(cells, findings, tables, pictures, grids),
    {edition: _settings(edition) for edition in TASK},
    notes={"quick": combined_notes.QUICK},
)
