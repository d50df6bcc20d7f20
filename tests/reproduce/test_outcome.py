from __future__ import annotations

import math

import pytest

from fedpace.errors import Stop
from fedpace.reproduce.outcome import Outcome, Watch
from fedpace.reproduce.results import SeedSpread, mean_curve
from fedpace.reproduce.run import simulated
from fedpace.sim.observer import StepRecord

from .conftest import cell, outcome, results


def test_an_outcome_survives_its_json() -> None:
    made = outcome(
        [0.2, 0.4], model=(1.5,), training_loss=0.25, traffic={"up": {"frames": 3}}, staleness={0: 1, 4: 2}
    )
    assert Outcome.from_json(made.to_json()) == made


def test_the_final_figure_is_the_mean_of_the_last_evaluations() -> None:
    made = outcome([0.0, 0.5, 0.75])
    assert made.final() == 0.75
    assert made.final("accuracy", 2) == 0.625
    assert math.isnan(outcome([]).final())


def test_a_diverged_run_knows_nothing() -> None:
    assert outcome([0.9], ended="diverged").final() == 0.0


def test_the_first_evaluation_at_the_target_counts() -> None:
    point = outcome([0.2, 0.5, 0.4, 0.6]).first_at(0.5)
    assert point is not None and (point.version, point.seconds, point.bytes) == (2, 4.0, 30)
    assert outcome([0.2]).first_at(0.5) is None


def test_staleness_is_weighted_by_how_often() -> None:
    made = outcome([], staleness={0: 1, 2: 3})
    assert made.mean_staleness == 1.5
    assert made.max_staleness == 2


def step(version: int, seconds: float, accuracy: float | None) -> StepRecord:
    return StepRecord(version, seconds, (0,), (0,), 1, 1, {} if accuracy is None else {"accuracy": accuracy})


def test_a_run_ends_at_its_target_and_not_before() -> None:
    watch = Watch(0.5, None)
    watch.recorded(step(1, 1.0, None), None)
    watch.recorded(step(2, 2.0, 0.49), None)
    with pytest.raises(Stop):
        watch.recorded(step(3, 3.0, 0.5), None)


def test_a_run_ends_when_its_time_is_over() -> None:
    watch = Watch(None, 10.0)
    watch.recorded(step(1, 9.9, 1.0), None)
    with pytest.raises(Stop):
        watch.recorded(step(2, 10.0, None), None)


def test_a_simulated_cell_is_where_algebra_says() -> None:
    """x_{t+1} = x_t + (2 - x_t) / 2 from 0: 1, 1.5, 1.75."""
    made = simulated(cell(), 0)
    assert (made.ended, made.steps, made.model) == ("finished", 3, (1.75,))
    assert [point.metrics["distance"] for point in made.points] == [1.0, 0.5, 0.25]


def test_a_cell_that_runs_out_of_time_keeps_what_it_learned() -> None:
    """Without a population a solve takes a second: two steps in two seconds."""
    made = simulated(cell(stop_s=2.0), 0)
    assert (made.ended, made.steps, made.model) == ("settled", 2, (1.5,))


def test_the_training_loss_is_that_of_the_last_model() -> None:
    """(0.75^2 + 1.25^2) / 2 / 2 at 1.75."""
    assert simulated(cell(training_loss=True), 0).training_loss == pytest.approx(
        (0.75**2 + 1.25**2) / 4, rel=1e-14
    )


def test_a_spread_says_how_many_missed() -> None:
    found = results({"a": [outcome([0.2, 0.6]), outcome([0.7]), outcome([0.1])]})
    took = found.to_target("a", 0.5, lambda point: point.version)
    assert took == SeedSpread((2, 1), missed=1)
    assert not took.reached
    assert f"{took:.1f}" == "1.5 ± 0.7 (2 of 3)"
    assert f"{found.to_target('a', 0.9, lambda point: point.version):.1f}" == "not reached"
    assert f"{found.final('b'):.1f}" == "not run"


def test_accuracy_is_shown_in_percent_and_loss_is_not() -> None:
    found = results({"a": [outcome([0.25])]})
    assert found.final("a").mean == 25.0
    assert found.final("a", "loss").mean == 0.75


def test_a_mean_curve_goes_as_far_as_all_of_its_runs() -> None:
    xs, mean, deviation = mean_curve(
        [outcome([0.2, 0.4, 0.6]), outcome([0.4, 0.4])], lambda point: point.version
    )
    assert xs == [1, 2]
    assert mean == pytest.approx([0.3, 0.4])
    assert deviation == pytest.approx([math.sqrt(0.02), 0.0])


def test_smoothing_averages_the_last_values() -> None:
    _, mean, _ = mean_curve([outcome([0.0, 0.4, 0.8])], lambda point: point.version, smooth=2)
    assert mean == pytest.approx([0.0, 0.2, 0.6])
