"""FedNova's local rates: tuned for FedAvg as in the paper, and for each method."""

from __future__ import annotations

import numpy as np

from fedpace.reproduce.cell import Cell
from fedpace.reproduce.experiment import Verdict
from fedpace.reproduce.fednova import heterogeneous
from fedpace.reproduce.fednova.testbeds import BEDS, EPOCHS
from fedpace.reproduce.judgement import settled
from fedpace.reproduce.outcome import Outcome
from fedpace.reproduce.results import Results

from .conftest import outcome, results

PLACE, SYNTHETIC = "digits", "synthetic(1,1)"
BEST = {
    ("FedAvg", "SGD"): 0.08,
    ("FedAvg", "momentum"): 0.05,
    ("FedNova", "SGD"): 0.02,
    ("FedNova", "momentum"): 0.01,
}


def choices(place: str, factor: float = 1) -> dict[str, tuple[float, str]]:
    """Twice the rate where clients draw their epochs."""
    return {
        f"rate of {place} {method}, {solver}, {epochs}": (factor * rate * (1 + ("U" in epochs)), "")
        for (method, solver), rate in BEST.items()
        for epochs in EPOCHS
    }


def choices_by_data_set() -> dict[str, tuple[float, str]]:
    """Half the rate on every data set but the first."""
    return {
        name: rate
        for seed in range(10, 20)
        for name, rate in choices(f"{SYNTHETIC} no. {seed}", 0.5 if seed > 10 else 1).items()
    }


def flat(accuracy: float) -> list[Outcome]:
    return [outcome([accuracy + seed / 1000] * 6) for seed in range(5)]


def test_every_method_solver_and_kind_of_work_has_a_grid_at_every_place() -> None:
    names = [grid.name for grid in heterogeneous.grids("quick")]
    assert len(set(names)) == len(names) == (len(BEDS["quick"]) - 1 + 10) * 2 * 2 * 2 + 10 * (3 + 1) * 2
    assert set(choices(PLACE)) | set(choices_by_data_set()) < set(names)
    assert heterogeneous.grids("full") == []
    wanted = "rate of digits FedNova, momentum, E = 2"
    [grid] = [grid for grid in heterogeneous.grids("quick") if grid.name == wanted]
    tried = grid.cell(0.08, "").algorithm.local
    assert (tried.lr, tried.momentum, tried.epochs) == (0.08, 0.9, 2)


def test_fednova_has_fedavgs_rate_as_in_the_paper_and_its_own_in_cells_beside() -> None:
    cells = heterogeneous.cells("quick", Results(choices=choices(PLACE)))
    made = {cell.name: cell.algorithm.local.lr for cell in cells}
    for epochs, factor in zip(EPOCHS, (1, 2), strict=True):
        for method in ("FedAvg", "FedNova"):
            assert made[f"tuned digits {method}, SGD, {epochs}"] == factor * 0.08
            assert made[f"tuned digits {method}, momentum, {epochs}"] == factor * 0.05
        assert made[f"best digits FedNova, SGD, {epochs}"] == factor * 0.02
        assert made[f"best digits FedNova, momentum, {epochs}"] == factor * 0.01
    assert made["digits FedNova, momentum, E = 2"] == 0.4 * 0.03
    assert not any(name.startswith(("tuned synthetic", "best synthetic")) for name in made)


def test_figure_7_has_fedavgs_rate_on_its_right_and_fednovas_on_its_left() -> None:
    known = Results(choices=choices_by_data_set())
    made = {cell.name: cell.algorithm.local for cell in heterogeneous.cells("quick", known)}
    for method in ("FedAvg", "FedNova-prox", "FedProx, τ_eff = Σ p K"):
        assert made[f"tuned {SYNTHETIC} {method}, proximal, E = 2"].lr == 0.08
    assert made[f"best {SYNTHETIC} FedNova, hybrid momentum"].lr == 2 * 0.01 / 4
    assert made[f"best {SYNTHETIC} FedNova, server momentum"].lr == 2 * 0.02 / 4
    assert made[f"best {SYNTHETIC} FedNova-VR, momentum, E = 2"].lr == 0.01
    assert made[f"best {SYNTHETIC} FedNova, steps 2.5 times as long"].lr == 2 * 0.02
    ends = {name: flat(0.8 if "hybrid" in name else 0.7) for name in made if SYNTHETIC in name}
    found = settled("quick", heterogeneous.findings("quick", results(ends)))
    hybrid, control = (finding for finding in found if "hybrid" in finding.claim)
    assert hybrid.comparisons[0].what.startswith(f"best {SYNTHETIC} FedNova, hybrid momentum above best")
    assert control.comparisons[0].what.endswith(f"above best {SYNTHETIC} FedNova, steps 2.5 times as long")


def test_on_synthetic_data_the_rates_of_a_run_are_those_tuned_on_its_own_data_set() -> None:
    every = choices_by_data_set()
    [grid] = [g for g in heterogeneous.grids("quick") if g.name.endswith("no. 13 FedAvg, SGD, E = 2")]
    tried, [plain, *_] = grid.cell(0.02, ""), heterogeneous.cells("quick", Results())
    assert grid.seeds == (1000, 1001) and tried is not None
    assert loss_of(tried, 1000) == loss_of(plain, 13) != loss_of(plain, 1000)
    made = {cell.name: cell for cell in heterogeneous.cells("quick", Results(choices=every))}
    cell = made[f"tuned {SYNTHETIC} FedNova, SGD, E = 2"]
    rates = [cell.algorithm_of(seed).local.lr for seed in range(10, 20)]
    assert rates == [0.08] + 9 * [0.04] and cell.seeds == 10
    del every[f"rate of {SYNTHETIC} no. 17 FedAvg, SGD, E = 2"]
    early = {cell.name for cell in heterogeneous.cells("quick", Results(choices=every))}
    assert f"best {SYNTHETIC} FedNova, SGD, E = 2" in early and cell.name not in early


def loss_of(cell: Cell, seed: int) -> float:
    """Over all clients' data, at a point that is the same for all: other data have another."""
    task = cell.task(seed)
    return float(task.training_loss(np.linspace(-1, 1, task.layout.size)))  # type: ignore[attr-defined]


def test_a_claim_of_the_paper_is_judged_at_fedavgs_rate_and_ours_at_each_ones_own() -> None:
    """At the fixed rate FedNova is ahead, at FedAvg's it is behind, at its own it is ahead of FedAvg at FedAvg's."""
    ends, made = judged_on_digits(choices(PLACE))
    told = verdicts(made)
    assert told["FedNova ends above FedAvg, SGD, E = 2, digits"] is Verdict.CONTRADICTED
    assert (
        told["each at its own best rate FedNova ends above FedAvg, SGD, E = 2, digits"] is Verdict.REPRODUCED
    )
    some = {n: flat(a) for n, a in ends.items() if n != "tuned digits FedNova, SGD, E = 2"}
    assert verdicts(results(some))["FedNova ends above FedAvg, SGD, E = 2, digits"] is Verdict.REPRODUCED


def test_a_row_of_ours_with_the_runs_of_the_papers_is_not_judged_again() -> None:
    """Where FedNova's own best rate is FedAvg's."""
    same = choices(PLACE) | {f"rate of {PLACE} FedNova, SGD, E = 2": (BEST["FedAvg", "SGD"], "")}
    told = verdicts(judged_on_digits(same)[1])
    row = "each at its own best rate FedNova ends above FedAvg, {}, E = 2, digits"
    assert told[row.format("SGD")] is Verdict.NOT_TESTED
    assert told[row.format("momentum")] is Verdict.REPRODUCED


def judged_on_digits(chosen: dict[str, tuple[float, str]]) -> tuple[dict[str, float], Results]:
    """FedNova ahead of FedAvg, but behind it where it has FedAvg's rate."""
    cells = heterogeneous.cells("quick", Results(choices=chosen))
    digits = {c.name: c for c in cells if PLACE in c.name and not c.name.startswith("rates ")}
    ends = {name: 0.6 if "FedNova" in name else 0.5 for name in digits}
    ends |= {name: 0.3 for name in digits if name.startswith("tuned digits FedNova")}
    made = Results(choices=chosen)
    for name, cell in digits.items():
        for seed, run in enumerate(flat(ends[name])):
            made.add(cell, seed, run)
    return ends, made


def verdicts(known: Results) -> dict[str, Verdict]:
    found = settled("quick", heterogeneous.findings("quick", known))
    return {finding.claim: finding.verdict for finding in found if finding.claim.endswith(PLACE)}


def test_the_rates_that_were_chosen_are_on_the_page() -> None:
    [_, rates, _] = heterogeneous.tables("quick", Results(choices=choices(PLACE)))
    assert rates.rows == [
        ("digits, FedAvg, E = 2", "0.08", "0.05"),
        ("digits, FedAvg, E ~ U(2,5)", "0.16", "0.1"),
        ("digits, FedNova, E = 2", "0.02", "0.01"),
        ("digits, FedNova, E ~ U(2,5)", "0.04", "0.02"),
    ]
    [_, rates, _] = heterogeneous.tables("quick", Results(choices=choices_by_data_set()))
    assert rates.rows[0] == (f"{SYNTHETIC}, FedAvg, E = 2", "0.04 (9), 0.08 (1)", "0.025 (9), 0.05 (1)")


def test_the_picture_of_fixed_rates_has_the_places_that_were_run_at_them() -> None:
    names = [cell.name for cell in heterogeneous.cells("quick", Results()) if cell.name.startswith(PLACE)]
    [figure] = heterogeneous.pictures("quick", results({name: flat(0.5) for name in names})).values()
    shown = [axes.get_title("left") for axes in figure.axes if axes.axison]
    assert shown == [f"digits, {solver}, fixed rate" for solver in ("SGD", "momentum", "proximal")]
    assert heterogeneous.pictures("quick", Results()) == {}
