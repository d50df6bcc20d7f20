"""What several runs need to get somewhere: means of chosen numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fedpace.record import Run
from fedpace.record.report.compare import picture, real_seconds
from fedpace.record.run.metrics import rises
from fedpace.sim.observer import StepRecord


def learned(run: Run, *accuracies: float | None, seconds: float = 1.0) -> Run:
    """The run with these accuracies, one step each; 10 bytes up and 5 down per step."""
    history = [
        StepRecord(t, seconds * t, (0,), (0,), 10, 5, {} if a is None else {"accuracy": a})
        for t, a in enumerate(accuracies, start=1)
    ]
    times = [0.5 * step.version for step in history]
    return replace(run, history=history, rounds=len(history), summary={"step_seconds": times})


def test_real_seconds_of_a_run_without_a_clock_are_known_at_its_end_only(run: Run) -> None:
    clocked, timed = learned(run, 0.2, 0.8), replace(learned(run, 0.2, 0.8), summary={"real_seconds": 7.0})
    early = replace(timed, history=timed.history[:1])
    assert (real_seconds(clocked), real_seconds(timed), real_seconds(early)) == (1.0, 7.0, None)


@pytest.mark.parametrize("metric", ["accuracy", "accuracy_top5", "f1", "macro_f1", "roc-auc", "Recall"])
def test_metrics_that_rise(metric: str) -> None:
    assert rises(metric)


@pytest.mark.parametrize("metric", ["loss", "mse", "distance", "perplexity", "kl"])
def test_metrics_that_fall(metric: str) -> None:
    assert not rises(metric)


def test_the_picture_has_every_seed_and_their_mean(run: Run) -> None:
    runs = {"a": [learned(run, 0.2, 0.6), learned(run, 0.4, 0.8, seconds=3.0)], "b": [learned(run, 0.1, 0.3)]}
    steps, seconds, traffic = picture(runs, ("accuracy", 0.5), "side by side").axes
    lines = [(line.get_xdata(), line.get_ydata()) for line in seconds.get_lines()]
    drawn = [(list(x), pytest.approx(list(y))) for x, y in lines]
    assert drawn[:3] == [([1, 2], [0.2, 0.6]), ([3, 6], [0.4, 0.8]), ([2, 4], [0.3, 0.7])]
    assert [axes.get_xlabel() for axes in (steps, seconds, traffic)] == [
        "server steps",
        "virtual seconds",
        "B up and down",
    ]
    assert list(lines[-1][1]) == [0.5, 0.5]  # the goal


def test_seeds_measured_after_different_steps_have_no_mean(run: Run) -> None:
    steps, *_ = picture({"a": [learned(run, 0.2, 0.6), learned(run, None, 0.8)]}).axes
    assert len([line for line in steps.get_lines() if len(line.get_xdata())]) == 2
