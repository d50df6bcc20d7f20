"""FedNova's local rates: tuned for FedAvg as in the paper, and for each method."""

from __future__ import annotations

from fedpace.reproduce.experiment import Verdict
from fedpace.reproduce.fednova import heterogeneous, tuned
from fedpace.reproduce.fednova.testbeds import BEDS, EPOCHS
from fedpace.reproduce.judgement import settled
from fedpace.reproduce.outcome import Outcome
from fedpace.reproduce.results import Results

from .conftest import outcome, results

PLACE = "digits"
CHOICES = {
    f"rate of {method}, {solver}, {PLACE}": (rate, "")
    for (method, solver), rate in {
        ("FedAvg", "SGD"): 0.08,
        ("FedAvg", "momentum"): 0.05,
        ("FedNova", "SGD"): 0.02,
        ("FedNova", "momentum"): 0.01,
    }.items()
}


def flat(accuracy: float) -> list[Outcome]:
    return [outcome([accuracy + seed / 1000] * 6) for seed in range(5)]


def test_every_method_and_solver_has_a_grid_at_every_place() -> None:
    names = [grid.name for grid in heterogeneous.grids("quick")]
    assert len(set(names)) == len(names) == len(BEDS["quick"]) * 2 * 2
    assert set(CHOICES) < set(names) and heterogeneous.grids("full") == []
    [grid] = [
        grid for grid in heterogeneous.grids("quick") if grid.name == f"rate of FedNova, momentum, {PLACE}"
    ]
    tried = grid.cell(0.08, "").algorithm.local
    assert (tried.lr, tried.momentum, tried.epochs) == (0.08, 0.9, 2)


def test_fednova_has_fedavgs_rate_as_in_the_paper_and_its_own_in_cells_beside() -> None:
    cells = {cell.name: cell for cell in heterogeneous.cells("quick", Results(choices=CHOICES))}
    made = {name: cell.algorithm.local.lr for name, cell in cells.items() if PLACE in name}
    for epochs in EPOCHS:
        for method in ("FedAvg", "FedNova"):
            assert made[f"tuned digits {method}, SGD, {epochs}"] == 0.08
            assert made[f"tuned digits {method}, momentum, {epochs}"] == 0.05
        assert made[tuned.best(PLACE, "SGD", epochs)] == 0.02
        assert made[tuned.best(PLACE, "momentum", epochs)] == 0.01
    assert made["digits FedNova, momentum, E = 2"] == 0.4 * 0.03
    assert not any(name.startswith(("tuned synthetic", "best synthetic")) for name in cells)


def test_a_claim_of_the_paper_is_judged_at_fedavgs_rate_and_ours_at_each_ones_own() -> None:
    """At the fixed rate FedNova is ahead, at FedAvg's it is behind, at its own it is ahead of FedAvg at FedAvg's."""
    cells = heterogeneous.cells("quick", Results(choices=CHOICES))
    names = [cell.name for cell in cells if PLACE in cell.name and not cell.name.startswith("rates ")]
    ends = {name: 0.6 if "FedNova" in name else 0.5 for name in names}
    ends |= {name: 0.3 for name in names if name.startswith("tuned digits FedNova")}
    found = settled("quick", heterogeneous.findings("quick", results({n: flat(a) for n, a in ends.items()})))
    told = {finding.claim: finding.verdict for finding in found if finding.claim.endswith(PLACE)}
    assert told["FedNova ends above FedAvg, SGD, E = 2, digits"] is Verdict.CONTRADICTED
    assert (
        told["each at its own best rate FedNova ends above FedAvg, SGD, E = 2, digits"] is Verdict.REPRODUCED
    )
    some = {n: flat(a) for n, a in ends.items() if n != "tuned digits FedNova, SGD, E = 2"}
    [early] = [
        finding
        for finding in settled("quick", heterogeneous.findings("quick", results(some)))
        if finding.claim == "FedNova ends above FedAvg, SGD, E = 2, digits"
    ]
    assert early.verdict is Verdict.REPRODUCED


def test_the_rates_that_were_chosen_are_on_the_page() -> None:
    [_, rates, _] = heterogeneous.tables("quick", Results(choices=CHOICES))
    assert rates.rows == [("digits, FedAvg", "0.08", "0.05"), ("digits, FedNova", "0.02", "0.01")]
