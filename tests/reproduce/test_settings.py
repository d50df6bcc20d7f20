"""Settings of the papers that decide a verdict: which momenta are tried, what is divided by what, who is active."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fedpace import algorithms, simulate
from fedpace.reproduce import experiment
from fedpace.reproduce.defedavg.setting import OURS, SAVING, algorithm, devices
from fedpace.reproduce.defedavg.table1_cells import rates
from fedpace.reproduce.experiment import Verdict
from fedpace.reproduce.fedgm import autonomous as fedgm_autonomous
from fedpace.reproduce.fedgm.autonomous_cells import WAY
from fedpace.reproduce.fednova.longer_steps import LongerSteps
from fedpace.reproduce.judgement import settled
from fedpace.reproduce.outcome import Outcome
from fedpace.reproduce.own.combined_rules import METHODS, STAGED
from fedpace.reproduce.results import Results
from fedpace.tasks import quadratics
from fedpace.theory import stability_limit

from .conftest import outcome, results


def test_under_delay_the_grid_has_the_momenta_that_are_stable_at_the_largest_rates() -> None:
    grids = {grid.name: grid for grid in fedgm_autonomous.grids("quick")}
    delayed = grids["autonomous FedGM, R = 10"]
    assert delayed.others[0] == ", beta 0.95 nu 0.7"
    largest = max(rate for rate, other in delayed.settings() if other == delayed.others[0])
    assert largest <= stability_limit(0.95, 0.7, 10) / WAY < 2.0


def test_the_printed_form_divides_by_steps_and_multiplies_by_nothing() -> None:
    cells = fedgm_autonomous.cells("quick", Results())
    references = {cell.name.split()[1]: cell.algorithm.aggregate for cell in cells if "R = 5" in cell.name}
    assert references["printed"].k_ref == 1.0
    assert references["autonomous"].k_ref == "mean"


def test_what_is_chosen_in_short_runs_is_chosen_among_runs_of_the_judged_length() -> None:
    for edition, judged in (("quick", 500), ("full", None)):
        assert {grid.judged_rounds for grid in fedgm_autonomous.grids(edition)} == {judged}
    choices = {"autonomous FedAvg, R = 5": (0.3, "")}
    cells = {cell.name: cell for cell in fedgm_autonomous.cells("quick", Results(choices=choices))}
    assert cells["autonomous FedAvg, R = 5"].rounds == 500
    assert cells["grid autonomous FedAvg, R = 5, rate 0.3"].rounds == 60


def test_the_printed_form_is_judged_beside_the_other() -> None:
    made = {
        f"printed autonomous {method}, R = 5": [outcome([accuracy + seed / 1000] * 6) for seed in range(5)]
        for method, accuracy in (("FedGM", 0.8), ("FedAvg", 0.7))
    }
    found = settled("quick", fedgm_autonomous.findings("quick", results(made)))
    told = {claim.claim: claim.verdict for claim in found if claim.verdict is not Verdict.NOT_RUN}
    assert list(told.values()) == [Verdict.REPRODUCED]
    assert next(iter(told)).endswith("as printed")


def test_counting_steps_makes_the_step_of_fedprox_longer_and_nothing_else() -> None:
    """K = 2 and alpha = lr mu = 1/2: ||a||_1 = 1 + 1/2, so the step grows by 2 / 1.5. Without mu it is FedAvg's."""
    task = quadratics([1.0, 3.0])
    work = {"client_lr": 0.5, "steps": 2, "batch_size": None}

    def first(prox_mu: float, rule: object | None = None) -> float:
        algorithm = algorithms.fedprox(prox_mu=prox_mu, **work)
        changed = algorithm if rule is None else replace(algorithm, aggregate=rule)
        return float(simulate(changed, task, rounds=1).model[0])

    assert first(1.0, LongerSteps()) == pytest.approx(first(1.0) * 2 / 1.5, rel=1e-14)
    assert first(0.0, LongerSteps()) == first(0.0)


def test_clients_that_train_only_when_sampled_train_less_often() -> None:
    """Two draws a step among five clients, all of whom train all the time otherwise."""
    task = quadratics([1.0, 2.0, 3.0, 4.0, 5.0])

    def trainings(energy_saving: bool) -> int:
        rule = algorithms.defedavg_niid(draws=2, steps=1, batch_size=None, energy_saving=energy_saving)
        return Outcome.of(simulate(rule, task, rounds=20), "finished").sessions

    assert trainings(energy_saving=True) < trainings(energy_saving=False) <= 5 * 21


def test_asysg_reads_one_gradient_of_each_of_n_active_clients() -> None:
    rule = algorithm("AsySG", "iid", 20, (0.1, None))
    assert (rule.pace.buffer, rule.pace.concurrency, rule.local.steps, rule.local.lr) == (20, 20, 1, 1.0)
    assert rule.server_opt.lr == 0.1


def test_defedavg_is_the_papers_reading_transfers_overlap_and_a_step_names_a_client_once() -> None:
    """At n = 10, iid, 1,175 steps then take 26.1 s on the paper's clock (printed 26.39)."""
    assert algorithm(OURS, "iid", 80, (1.0, 0.1)).pace.distinct
    assert {method: devices(method).mode for method in (OURS, SAVING, "FedAvg", "FedBuff")} == {
        OURS: "overlap",
        SAVING: "overlap",
        "FedAvg": "serial",
        "FedBuff": "serial",
    }


def test_energy_saving_has_the_rates_of_what_it_is_compared_with() -> None:
    known = Results(choices={f"noniid {OURS} n=20": (0.3, "0.05")})
    assert (
        rates("quick", "noniid", SAVING, 1, known) == rates("quick", "noniid", OURS, 1, known) == (0.3, 0.05)
    )


def test_no_cell_of_table_1_or_of_figure_6_is_run_twice_under_two_names() -> None:
    """FedBuff with 2n of 100 clients is FedBuff at n = 80; Table 2 repeats one pair of rates but for n = 80, iid."""
    for name in ("defedavg-table1", "defedavg-speedup"):
        cells = experiment(name).procedure.cells("full", Results())
        runs = [replace(cell, name="", stop_at=None) for cell in cells]
        again = [cell.name for cell, run in zip(cells, runs, strict=True) if runs.count(run) > 1]
        assert all("n=10" in each for each in again)  # server rate x n stops at the target: no curve


def test_every_combined_method_has_the_same_rates_and_all_with_stages_the_same_lengths() -> None:
    grids = experiment("combined-methods").procedure.grids("quick")
    assert len(grids) == 2 * len(METHODS)
    assert len({grid.rates for grid in grids}) == 1
    with_stages = {grid.others for grid in grids if grid.name.startswith(STAGED)}
    without = {grid.others for grid in grids if not grid.name.startswith(STAGED)}
    assert len(with_stages) == len(without) == 1
    assert {other.partition(",")[0] for other in with_stages.pop()} == set(without.pop())
