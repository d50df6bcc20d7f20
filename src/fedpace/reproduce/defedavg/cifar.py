"""DeFedAvg, Table 1, CIFAR-10: the pair of the first column, FedAvg and DeFedAvg at n = 10 on iid data.

Table 2's rates are those of the paper's CNN; on the small network here they do not hold, so both methods are tuned.
"""

from __future__ import annotations

from dataclasses import replace

from fedpace.reproduce import pictures as draw
from fedpace.reproduce.cell import Cell, NamedTask
from fedpace.reproduce.comparison import cheaper
from fedpace.reproduce.defedavg.setting import OURS, Pair, algorithm, devices
from fedpace.reproduce.defedavg.table1_cells import LOCAL_RATES, SERVER_RATES, pair_of
from fedpace.reproduce.experiment import Finding, Table, not_run
from fedpace.reproduce.results import Results
from fedpace.reproduce.tuning import Grid, soonest
from fedpace.sim.distributions import Between

MODEL, TARGET, CAP_S = "mlp:32", 0.4, 200.0  # stated before any run
RATES: dict[str, Pair] = {"FedAvg": (1.0, 0.01), OURS: (1.0, 0.05)}  # Table 2, CIFAR-10, n = 10, iid
SECONDS = {"FedAvg": 302.12, OURS: 54.41}  # Table 1, to 70 %
STEP_S, TRANSFER_S = Between(0.00314, 0.0157), 0.0706  # 31.4 MFLOPs per step, 3.53 MB: section 4.1.3
CLAIM = "CIFAR-10, iid, n = 10: DeFedAvg is faster to the target than FedAvg"
PUBLISHED = f"{SECONDS['FedAvg']} s → {SECONDS[OURS]} s, to 70 %"


def cells(edition: str, known: Results) -> list[Cell]:
    """Of the quick edition: the grids, each method at its choice, and, beside what is judged, at Table 2's rates."""
    if edition != "quick":
        return []
    every = grids(edition)
    chosen = [(grid.name, cell) for grid in every if (cell := grid.chosen(known)) is not None]
    return [
        *(cell for grid in every for cell in grid.cells()),
        *(replace(cell, name=name, seeds=None) for name, cell in chosen),
        *(replace(_cell(printed(method), method, pair), by_name=True) for method, pair in RATES.items()),
    ]


def grids(edition: str) -> list[Grid]:
    return [_grid(method) for method in RATES] if edition == "quick" else []


def _grid(method: str) -> Grid:
    def cell(rate: float, local: str) -> Cell | None:
        pair = pair_of(method, rate, local)
        label = f"rates {name_of(method)} {rate:g} {local}"
        return None if pair is None else replace(_cell(label, method, pair), seeds=1)

    return Grid(name_of(method), SERVER_RATES, cell, soonest(TARGET, draw.seconds), LOCAL_RATES)


def _cell(label: str, method: str, pair: Pair) -> Cell:
    return Cell(
        name=label,
        algorithm=algorithm(method, "iid", 10, pair),
        task=NamedTask("cifar10", "iid", MODEL),
        population=replace(devices(method), step_s=STEP_S, up_s=TRANSFER_S, down_s=TRANSFER_S),
        rounds=1_000_000,
        evaluate_every="1s",
        stop_at=TARGET,
        stop_s=CAP_S,
    )


def name_of(method: str) -> str:
    return f"CIFAR-10 iid {method} n=10"


def printed(method: str) -> str:
    return f"{name_of(method)}, Table 2's rates"


def findings(edition: str, results: Results) -> list[Finding]:
    why = "the paper's CNN takes hours a run; small runs of other n and methods, which need tuning, were not made."
    rest = not_run("the same on CIFAR-10", "DeFedAvg fastest in all 8 cells", why)
    return [_pair(results), rest] if edition == "quick" else [rest]


def _pair(results: Results) -> Finding:
    names = [name_of(method) for method in RATES]
    if not results.have(*names):
        return not_run(CLAIM, PUBLISHED)
    slow, fast = (results.to_target(name, TARGET, draw.seconds) for name in names)
    sooner = cheaper(results, names[1], names[0], TARGET, draw.seconds)
    note = f"{MODEL}, to {TARGET:.0%}, both tuned, with the paper's time model for CIFAR-10. {_at_printed(results)}"
    text = f"{slow:.1f} → {fast:.1f} s"
    return Finding(CLAIM, PUBLISHED, text, note=note, comparisons=(sooner,), family="Table 1")


def _at_printed(results: Results) -> str:
    if not results.have(*map(printed, RATES)):
        return ""
    took = [f"{m} {results.to_target(printed(m), TARGET, draw.seconds):.1f}" for m in RATES]
    apart = sum(run.diverged for run in results.of(printed(OURS)))
    return f"At Table 2's rates, which are the CNN's, seconds: {', '.join(took)}; {apart} runs of DeFedAvg diverge."


def tables(results: Results) -> list[Table]:
    rows = [
        (label, f"{results.to_target(cell, TARGET, draw.seconds):.2f}", f"{SECONDS[method]:g}")
        for method in RATES
        for label, cell in ((method, name_of(method)), (f"{method}, Table 2's rates", printed(method)))
        if results.have(cell)
    ]
    header = ("", "n = 10", "published 10")
    return (
        [Table(f"CIFAR-10, iid: seconds to {TARGET:.0%} (published: to 70%)", header, rows)] if rows else []
    )
