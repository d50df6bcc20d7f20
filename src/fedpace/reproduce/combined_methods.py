"""What none of the papers has: cached calibration, staged server momentum and two-way links together, on one clock."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fedpace import algorithms
from fedpace.aggregate import Cached
from fedpace.algorithm import Algorithm
from fedpace.link import Difference, ErrorFeedback, TopK
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
from fedpace.reproduce.outcome import Outcome
from fedpace.reproduce.results import Results, SeedSpread
from fedpace.reproduce.tuning import Grid
from fedpace.reproduce.two_way_cells import PAGE
from fedpace.sim import Population
from fedpace.theory import multistage

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TASK = {
    "quick": NamedTask("fashion-mnist", "dirichlet:0.1", "mlp:32"),
    "full": NamedTask("fashion-mnist", "dirichlet:0.1", "cnn"),
}
SIZE = {"quick": 25_450, "full": 582_026}  # parameters
TARGETS = {"quick": (0.8, 0.83), "full": (0.85, 0.88)}  # server rates are chosen for the first
CAP_S = {"quick": 30.0, "full": 300.0}
ROUNDS = 300  # of the stages; nobody needs more here
RATES = (0.3, 1.0)  # server rates to choose from: how large the first stages' step is, relatively
SHARE = 1 / 8
WORK: dict[str, Any] = {"client_lr": 0.05, "steps": 50, "batch_size": 10}
SLOTS: dict[str, Any] = {"buffer": 10, "concurrency": 20}
BETA = 0.7

LAST = 3  # evaluations whose mean is a run's accuracy
OURS = "all together"
PAPERS = ("multistage FedGM", "DeFedAvg-nIID", "CA2FL", "FedBNLACA 1/8")


def devices(edition: str) -> Population:
    """DeFedAvg's devices; links so fast that the whole model takes the 0.044 s of the paper, each byte its share."""
    per_byte = 0.044 / (4 * SIZE[edition])
    step = Population.uniform_slowdown().step_s
    return Population(step_s=step, up_s_per_byte=per_byte, down_s_per_byte=per_byte)


def _stages(rate: float) -> Any:
    return multistage((2 * rate, rate, rate / 2), ROUNDS, BETA, BETA)


def _fedgm(rate: float) -> Algorithm:
    plain = algorithms.fedavg(clients_per_round=10, **WORK)
    return replace(plain, server_opt=_stages(rate), name="multistage_fedgm")


def _cached(rate: float) -> Algorithm:
    return algorithms.ca2fl(server_lr=rate, **SLOTS, **WORK)


def _staged(rate: float) -> Algorithm:
    return replace(_cached(1.0), server_opt=_stages(rate), name="ca2fl_fedgm")


def _together(rate: float) -> Algorithm:
    """Every rule from another paper."""
    codec = TopK(SHARE)
    return replace(
        _staged(rate), up=ErrorFeedback(codec), down=Difference(codec), aggregate=Cached(), name="together"
    )


METHODS: Mapping[str, Callable[[float], Algorithm]] = {
    "FedAvg": lambda rate: algorithms.fedavg(clients_per_round=10, server_lr=rate, **WORK),
    "multistage FedGM": _fedgm,
    "DeFedAvg-nIID": lambda rate: algorithms.defedavg_niid(draws=10, server_lr=rate, **WORK),
    "FedBuff": lambda rate: algorithms.fedbuff(server_lr=rate, **SLOTS, **WORK),
    "CA2FL": _cached,
    "FedBNLACA 1/8": lambda rate: algorithms.fedbnlaca(
        clients_per_round=10, server_lr=0.03 * rate, codec="topk:1/8", down_codec="topk:1/8", tau=0.8, **WORK
    ),
    "two_way 1/8": lambda rate: algorithms.two_way(
        clients_per_round=10,
        server_lr=0.03 * rate,
        codec="topk:1/8",
        down_codec="topk:1/8",
        **PAGE,
        **WORK,
    ),
    "CA2FL + stages": _staged,
    OURS: _together,
}


def cells(edition: str, known: Results) -> list[Cell]:
    """The server rate on the first seed, then every seed."""
    every = []
    for grid in grids(edition):
        every += grid.cells()
        if (tuned := grid.chosen(known)) is not None:
            every.append(replace(tuned, name=grid.name, stop_at=None, seeds=None))
    return every


def grids(edition: str) -> list[Grid]:
    """The rate that is soonest at the first target, or gets nearest."""
    return [_grid(edition, method) for method in METHODS]


def _grid(edition: str, method: str) -> Grid:
    def cell(rate: float, _: str) -> Cell:
        return _cell(edition, _tuning(method, rate), METHODS[method](rate))

    def merit(outcome: Outcome) -> tuple[float, float]:
        reached = outcome.first_at(TARGETS[edition][0])
        return (-math.inf if reached is None else -reached.seconds, outcome.final("accuracy", LAST))

    return Grid(method, RATES, cell, merit)


def _tuning(method: str, rate: float) -> str:
    return f"rate {rate:g} {method}"


def chosen(edition: str, method: str, known: Results) -> str:
    """The rate of a method, for its table."""
    found = _grid(edition, method).chosen(known)
    return "" if found is None else found.name.split()[1]


def _cell(edition: str, label: str, rule: Algorithm) -> Cell:
    return Cell(
        name=label,
        algorithm=rule,
        task=TASK[edition],
        population=devices(edition),
        rounds=ROUNDS,
        evaluate_every="0.5s",
        stop_at=TARGETS[edition][0],
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
    return results.to_target(method, target, draw.seconds)


def megabytes(results: Results, method: str, target: float) -> SeedSpread:
    return results.to_target(method, target, draw.megabytes)


def _sooner(results: Results, target: float) -> Finding:
    claim = f"everything together reaches {target:.0%} sooner than each paper's own method"
    return _below_all(claim, results, target, draw.seconds, "s")


def _lighter(results: Results, target: float) -> Finding:
    return _below_all(f"... and with fewer bytes until {target:.0%}", results, target, draw.megabytes, "MB")


def _below_all(claim: str, results: Results, target: float, cost: draw.X, unit: str) -> Finding:
    """Whether ours reaches the target at a lower cost than every paper's own method."""
    if not results.have(OURS, *PAPERS):
        return not_run(claim, OWN)
    took = {method: results.to_target(method, target, cost) for method in (OURS, *PAPERS)}
    text = ", ".join(f"{method} {_with_unit(value, unit)}" for method, value in took.items())
    less = tuple(cheaper(results, OURS, method, target, cost) for method in PAPERS)
    return Finding(claim, OWN, text, comparisons=less, family=f"{unit} to {target:.0%}")


def _with_unit(value: SeedSpread, unit: str) -> str:
    return f"{value:.1f} {unit}" if value.values else f"{value:.1f}"


def _against(edition: str, results: Results, method: str) -> Finding:
    claim = f"everything together not more than 0.5 points below {method} at equal time"
    if not results.have(OURS, method):
        return not_run(claim, OWN)
    ours, theirs = results.final(OURS, last=LAST), results.final(method, last=LAST)
    text = f"{ours:.1f} % against {theirs:.1f} % after {CAP_S[edition]:.0f} s or {ROUNDS} steps"
    comparison = no_worse(results, OURS, method, final_accuracy(LAST))
    return Finding(claim, OWN, text, comparisons=(comparison,), family="final accuracy")


# ----------------------------------------------------------------------------------- tables, pictures


def tables(edition: str, results: Results) -> list[Table]:
    rows = [
        (
            method,
            chosen(edition, method, results),
            *(f"{seconds(results, method, target):.1f}" for target in TARGETS[edition]),
            *(f"{megabytes(results, method, target):.1f}" for target in TARGETS[edition]),
            f"{results.final(method, last=LAST):.1f}",
            f"{results.spread(method, lambda outcome: outcome.mean_staleness):.2f}",
        )
        for method in METHODS
    ]
    goals = [f"{what} to {target:.0%}" for what in ("seconds", "MB") for target in TARGETS[edition]]
    return [Table("Measured", ("", "server rate", *goals, "final accuracy %", "mean staleness"), rows)]


def pictures(edition: str, results: Results) -> Mapping[str, Figure]:
    shown = {m: m for m in (OURS, *PAPERS, "FedAvg")}
    with draw.style():
        figure, ((left, right),) = draw.sheet(2, width=5.6, height=3.8, sharey=True)
        draw.curves(left, results, shown, draw.seconds, smooth=2)
        draw.titled(left, "On the clock", "virtual seconds", "test accuracy, %", "lower right")
        draw.curves(right, results, shown, draw.megabytes, smooth=2)
        right.set_xscale("log")
        draw.titled(right, "On the wire", "MB sent, both directions", "")
        for axes in (left, right):
            axes.axhline(100 * TARGETS[edition][0], color="#999999", linestyle=":", linewidth=1)
            axes.set_ylim(bottom=40)
    return {"together": figure}


def _settings(edition: str) -> tuple[SettingRow, ...]:
    task, rates = TASK[edition], ", ".join(f"{rate:g}" for rate in RATES)
    return compared(
        f"""
        data, network | differs from paper to paper | {task.name}, {task.model}, 100 clients, {task.partition}
        devices | DeFedAvg: slowdown U[1, 5], 0.044 s per model each way
            | the same, each byte its share of the 0.044 s
        local work | DeFedAvg: 50 steps, batch 10, rate 0.05 | the same for all methods
        per server step | CA2FL: 20 active clients, buffer 10
            | 10 updates for all methods; 20 active clients where the method limits concurrency
        server rate |  | best of {rates} on the first seed (times 0.03 for AMSGrad);
            stages 2, 1, 1/2 of it over {ROUNDS} steps, beta = nu = {BETA}
        links |  | top-k 1/8 with error feedback up, differences to what the client holds down
        """
    )


NOTE = (
    "**What was tried.** Until 80 % CA2FL alone is as fast as everything together: with server rates outside the "
    "grid, everything together takes 6.8 ± 0.5 s at 0.5 and 5.8 ± 1.1 s at 0.7, without stages 6.3 ± 0.5 s at 1, "
    "against CA2FL's 6.2 ± 0.2 s (11.8 ± 4.4 s at 1.5). Early on the cache does the work, and momentum has yet to "
    "gather; what links and stages add is a third of the bytes and the way from 80 to 83 %."
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
    notes={"quick": NOTE},
)
