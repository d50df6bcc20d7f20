"""Training loss at every evaluation of a run, and nothing else changed by it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fedpace.reproduce import experiment
from fedpace.reproduce.cell import NamedTask
from fedpace.reproduce.comparison import training_loss
from fedpace.reproduce.defedavg import curves as defedavg_curves
from fedpace.reproduce.defedavg.table1_cells import METHODS, N
from fedpace.reproduce.results import Results
from fedpace.reproduce.run import simulated
from fedpace.reproduce.training_curves import METRIC, WithTrainingLoss
from fedpace.reproduce.tuning import read_choices

from .conftest import cell, outcome

RESULTS = Path(__file__).parents[2] / "docs" / "results"
DIGITS = NamedTask("digits", "iid", "softmax", 4)


def test_the_loss_over_all_clients_data_at_every_evaluation() -> None:
    """Its last value is what the whole data has at the end; the run itself stays as it is."""
    plain = cell(task=DIGITS, rounds=4, evaluate_every=2, training_loss=True)
    alone, watched = (
        simulated(each, seed=3) for each in (plain, replace(plain, task=WithTrainingLoss(DIGITS)))
    )
    losses = watched.values(METRIC)
    assert len(losses) == len(watched.points) and losses[0] > losses[-1] == watched.training_loss
    assert watched.training_loss == alone.training_loss
    assert watched.values("loss") == alone.values("loss") and not alone.values(METRIC)


def test_every_method_and_n_of_figures_2_to_5_has_a_curve() -> None:
    known = Results(choices=read_choices(RESULTS / "defedavg-table1", "quick"))
    found = {each.name: each for each in defedavg_curves.cells("quick", known)}
    assert {
        f"curve {split} {m} n={n}" for split in METHODS for m in ("FedAvg", "DeFedAvg") for n in N
    } <= set(found)
    assert all(each.stop_at is None and isinstance(each.task, WithTrainingLoss) for each in found.values())
    judged = {each.name: each for each in experiment("defedavg-table1").procedure.cells("quick", known)}
    assert all(
        each.algorithm == judged[name.removeprefix("curve ")].algorithm for name, each in found.items()
    )
    assert not defedavg_curves.cells("full", known)


def test_late_training_loss_is_the_mean_of_the_last_evaluations_of_its_curve() -> None:
    """A run without the curve has the loss at the end; one that diverged has none."""
    plain = outcome([0.5] * 4)
    curve = tuple(
        replace(point, metrics={**point.metrics, METRIC: loss})
        for point, loss in zip(plain.points, (4.0, 3.0, 2.0, 1.0), strict=True)
    )
    watched = replace(plain, points=curve, training_loss=9.0)
    assert training_loss(2)(watched) == 1.5 and training_loss()(watched) == 1.0
    assert training_loss(2)(replace(plain, training_loss=9.0)) == 9.0
    assert training_loss(2)(replace(watched, ended="diverged", training_loss=None)) is None
