"""DeFedAvg, Table 1, CIFAR-10: the pair of the first column, FedAvg and DeFedAvg at n = 10 on iid data."""

from __future__ import annotations

from dataclasses import replace

from fedpace.reproduce import pictures as draw
from fedpace.reproduce.cell import Cell, NamedTask
from fedpace.reproduce.comparison import cheaper
from fedpace.reproduce.defedavg import OURS, Pair, algorithm, devices
from fedpace.reproduce.experiment import Finding, Table, not_run
from fedpace.reproduce.results import Results
from fedpace.sim.distributions import Between

MODEL, TARGET, CAP_S = "mlp:32", 0.4, 200.0  # stated before any run
RATES: dict[str, Pair] = {"FedAvg": (1.0, 0.01), OURS: (1.0, 0.05)}  # Table 2, CIFAR-10, n = 10, iid
SECONDS = {"FedAvg": 302.12, OURS: 54.41}  # Table 1, to 70 %
STEP_S, TRANSFER_S = Between(0.00314, 0.0157), 0.0706  # 31.4 MFLOPs per step, 3.53 MB: section 4.1.3
CLAIM = "CIFAR-10, iid, n = 10: DeFedAvg is faster to the target than FedAvg"
PUBLISHED = f"{SECONDS['FedAvg']} s → {SECONDS[OURS]} s, to 70 %"


def cells(edition: str) -> list[Cell]:
    """Of the quick edition."""
    return [
        Cell(
            name=name_of(method),
            algorithm=algorithm(method, "iid", 10, pair),
            task=NamedTask("cifar10", "iid", MODEL),
            population=replace(devices(method), step_s=STEP_S, up_s=TRANSFER_S, down_s=TRANSFER_S),
            rounds=1_000_000,
            evaluate_every="1s",
            stop_at=TARGET,
            stop_s=CAP_S,
            long=True,
        )
        for method, pair in RATES.items()
        if edition == "quick"
    ]


def name_of(method: str) -> str:
    return f"CIFAR-10 iid {method} n=10"


def findings(edition: str, results: Results) -> list[Finding]:
    why = "the paper's CNN, other n and other methods: runs of hours each."
    rest = not_run("the same on CIFAR-10", "DeFedAvg fastest in all 8 cells", why)
    return [_pair(results), rest] if edition == "quick" else [rest]


def _pair(results: Results) -> Finding:
    names = [name_of(method) for method in RATES]
    if not results.have(*names):
        return not_run(CLAIM, PUBLISHED, "its cells are declared (`CIFAR-10`).")
    slow, fast = (results.to_target(name, TARGET, draw.seconds) for name in names)
    sooner = cheaper(results, names[1], names[0], TARGET, draw.seconds)
    note = f"{MODEL}, to {TARGET:.0%}, at the rates of the paper's Table 2 and its time model for CIFAR-10."
    text = f"{slow:.1f} s → {fast:.1f} s"
    return Finding(CLAIM, PUBLISHED, text, note=note, comparisons=(sooner,), family="Table 1")


def tables(results: Results) -> list[Table]:
    ran = [method for method in RATES if results.have(name_of(method))]
    rows = [
        (method, f"{results.to_target(name_of(method), TARGET, draw.seconds):.2f}", f"{SECONDS[method]:g}")
        for method in ran
    ]
    header = ("", "n = 10", "published 10")
    return (
        [Table(f"CIFAR-10, iid: seconds to {TARGET:.0%} (published: to 70%)", header, rows)] if rows else []
    )
