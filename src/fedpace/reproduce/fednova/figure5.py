"""FedNova, Figure 5: synthetic data, all clients or a sample of them, fixed or drawn epochs; in the paper's setting.

Claims, measures and seeds were written down before any of these runs. Rates as in the paper: tuned for FedAvg and given
to FedNova, tuned for FedProx by itself ("separately for FedAvg with different local solvers"). Sampled rounds are those
of the paper's Algorithm 1, for all methods alike: 9 of 30 clients, uniformly and without replacement, with weights
p_i over the sum of the sampled; and τ_eff is that of the sampled. Beside them FedNova with the τ_eff of all clients and
weights p_i N/q, which is this library's default.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from fedpace import algorithms
from fedpace.algorithm import Algorithm
from fedpace.reproduce import pictures as draw
from fedpace.reproduce.cell import Cell
from fedpace.reproduce.comparison import Comparison, above, final_accuracy
from fedpace.reproduce.experiment import OWN, Finding, not_run
from fedpace.reproduce.fednova.by_data_set import BED, PLACE, TunedMethod, cell_at, listed
from fedpace.reproduce.fednova.decayed import decayed
from fedpace.reproduce.fednova.testbeds import LAST, rounds_to
from fedpace.reproduce.results import Results
from fedpace.reproduce.tuning import Grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AVG, PROX, NOVA = METHODS = ("FedAvg", "FedProx", "FedNova")
OF_ALL = "FedNova, τ_eff of all clients"
MU = 1.0
NAME = "Figure 5"


class Panel(NamedTuple):
    where: str
    clients: int | None  # per round
    epochs: int | tuple[int, int]

    def __str__(self) -> str:
        """As in a claim: `9 of 30 clients, E ~ U(1,5)`."""
        who = "all clients" if self.clients is None else f"{self.clients} of {BED.task.clients} clients"
        work = f"= {self.epochs}" if isinstance(self.epochs, int) else "~ U({},{})".format(*self.epochs)
        return f"{who}, E {work}"


SAMPLED = round(0.3 * BED.task.clients)
PANELS = (Panel("left", None, 5), Panel("middle", SAMPLED, 5), Panel("right", SAMPLED, (1, 5)))


def rule(method: str, panel: Panel, rate: float) -> Algorithm:
    work: dict[str, Any] = {
        "client_lr": rate,
        "epochs": panel.epochs,
        "batch_size": BED.batch_size,
        "clients_per_round": panel.clients,
        "weighting": "samples",
    }
    made = {
        AVG: lambda: algorithms.fedavg(**work),
        PROX: lambda: algorithms.fedprox(prox_mu=MU, **work),
        NOVA: lambda: algorithms.fednova(tau_eff="sampled", **work),
        OF_ALL: lambda: algorithms.fednova(tau_eff="population", **work),
    }[method]()
    return decayed(made, BED.rounds)


def name_of(method: str, panel: Panel) -> str:
    return f"{PLACE} {method}, {NAME}, {panel.where}"


def tuned(method: str, panel: Panel) -> TunedMethod:
    """FedAvg and FedProx; FedNova has FedAvg's rates."""
    below = 1 / MU if method == PROX else math.inf
    return TunedMethod(f"{method}, {NAME}, {panel.where}", partial(rule, method, panel), below)


def grids() -> list[Grid]:
    return [grid for panel in PANELS for method in (AVG, PROX) for grid in tuned(method, panel).grids()]


def cells(known: Results) -> list[Cell]:
    """Of every panel whose rates were tuned."""
    return [
        cell_at(name_of(method, panel), partial(rule, method, panel), rates)
        for panel in PANELS
        for method in methods(panel)
        if (rates := tuned(PROX if method == PROX else AVG, panel).rates(known))
    ]


def methods(panel: Panel) -> tuple[str, ...]:
    return METHODS if panel.clients is None else (*METHODS, OF_ALL)


# ------------------------------------------------------------------------------------------- judgement


def findings(results: Results) -> list[Finding]:
    best = [_above(results, panel, rival) for panel in PANELS for rival in (AVG, PROX)]
    faster = [_faster(results, panel) for panel in PANELS]
    return [*best, *faster, *(_of_all(results, panel) for panel in PANELS if panel.clients is not None)]


def _above(results: Results, panel: Panel, rival: str) -> Finding:
    shown = f"{rival} (μ = {MU:g})" if rival == PROX else rival
    claim = f"FedNova ends above {shown}, {panel}, {PLACE}"
    published = f"{NAME}, {panel.where}: “consistently the best performance”"
    pair = (name_of(NOVA, panel), name_of(rival, panel))
    if not results.have(*pair):
        return not_run(claim, published)
    ahead = above(results, *pair, final_accuracy(LAST))
    return Finding(claim, published, _ends(results, *reversed(pair)), comparisons=(ahead,), family=NAME)


def _faster(results: Results, panel: Panel) -> Finding:
    claim = f"FedNova reaches the accuracy that FedAvg ends at in fewer rounds, {panel}, {PLACE}"
    published = f"{NAME}, {panel.where}: “converges faster”"
    if not results.have(name_of(AVG, panel), name_of(NOVA, panel)):
        return not_run(claim, published)
    fewer = fewer_rounds(results, panel)
    slow, fast = (sum(side) / len(side) for side in (fewer.larger, fewer.smaller))
    note = (
        f"a ratio of rounds, both read on curves of means of {LAST} evaluations; where FedNova does not get there it "
        f"counts with all {BED.rounds} rounds. FedAvg is still rising then."
    )
    return Finding(
        claim, published, f"{slow:.0f} → {fast:.0f} rounds", note=note, comparisons=(fewer,), family=NAME
    )


def fewer_rounds(results: Results, panel: Panel) -> Comparison:
    """FedAvg's rounds to the accuracy that it ends at, and FedNova's to the same."""
    sides = [results.outcomes[name_of(method, panel)] for method in (AVG, NOVA)]
    seeds = tuple(sorted(sides[0].keys() & sides[1].keys()))
    levels = [sides[0][seed].final("accuracy", LAST) for seed in seeds]
    slow, fast = (
        tuple(
            float(rounds_to(side[seed], level, BED.rounds)) for seed, level in zip(seeds, levels, strict=True)
        )
        for side in sides
    )
    return Comparison("FedAvg's rounds above FedNova's", seeds, slow, fast, ratio=True)


def _of_all(results: Results, panel: Panel) -> Finding:
    claim = f"with the τ_eff of all clients, our default, FedNova ends above FedAvg, {panel}, {PLACE}"
    pair = (name_of(OF_ALL, panel), name_of(AVG, panel))
    if not results.have(*pair):
        return not_run(claim, OWN)
    ahead = above(results, *pair, final_accuracy(LAST))
    return Finding(claim, OWN, _ends(results, *reversed(pair)), comparisons=(ahead,), family="τ_eff of all")


def _ends(results: Results, *names: str) -> str:
    """`80.1 ± 2.0 → 85.2 ± 1.0 %`."""
    return " → ".join(f"{results.final(name, last=LAST):.1f}" for name in names) + " %"


# ------------------------------------------------------------------------------------ tables, pictures


def rates(results: Results) -> list[tuple[str, str]]:
    """The rates that were chosen, one for each data set."""
    named = {AVG: "FedAvg, FedNova", PROX: f"FedProx (μ = {MU:g})"}
    return [
        (f"{NAME}, {panel}: {named[method]}", listed(found))
        for panel in PANELS
        for method in (AVG, PROX)
        if (found := tuned(method, panel).rates(results))
    ]


def pictures(results: Results) -> Mapping[str, Figure]:
    """The three panels, once all methods were run on them."""
    if not results.have(*(name_of(method, panel) for panel in PANELS for method in METHODS)):
        return {}
    with draw.style():
        figure, (row,) = draw.sheet(len(PANELS), width=3.8, sharey="row")
        for axes, panel in zip(row, PANELS, strict=True):
            lines = {f"{m} (μ = {MU:g})" if m == PROX else m: name_of(m, panel) for m in (AVG, NOVA, PROX)}
            draw.curves(axes, results, lines)
            draw.titled(axes, str(panel), "rounds", "", "lower right")
        row[0].set_ylabel("test accuracy, %")
    return {"figure5": figure}
