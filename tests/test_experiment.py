"""`fedpace.simulate`: what comes back, and what comes back when a run ends early."""

from __future__ import annotations

import gc
import re
import weakref

import numpy as np
import pytest

import fedpace
from fedpace import algorithms
from fedpace.errors import ConfigError, DivergedError, InterruptedRun, StalledError
from fedpace.sim import Population
from fedpace.sim.observer import Observer, StepRecord


@pytest.fixture
def task():
    return fedpace.tasks.quadratics([0.0, 4.0])


def test_a_run_carries_history_models_and_facts(task) -> None:
    """One full step of size 1/2 on (x - b)^2 / 2 halves the distance to the mean of the centres, 2."""
    algorithm = fedpace.algorithms.fedavg(client_lr=0.5, steps=1)
    run = fedpace.simulate(algorithm, task, rounds=3, keep_models=True)
    assert [float(x[0]) for x in run.models or ()] == [1.0, 1.5, 1.75]
    assert float(run.model[0]) == 1.75
    assert [record.version for record in run.history] == [1, 2, 3]
    assert (run.name, run.task, run.seed, run.rounds) == ("fedavg", "quadratics", 0, 3)
    assert run.counters["sessions"] == run.counters["solved"] == 6
    assert run.summary["compute"] == "inline" and run.summary["real_seconds"] > 0


def test_models_are_not_kept_unless_asked_for_and_evaluation_can_be_rare(task) -> None:
    run = fedpace.simulate(fedpace.algorithms.fedavg(steps=1), task, rounds=5, evaluate_every=2)
    assert run.models is None
    assert [bool(record.metrics) for record in run.history] == [False, True, False, True, True]
    silent = fedpace.simulate(fedpace.algorithms.fedavg(steps=1), task, rounds=2, evaluate_every=None)
    assert [record.metrics for record in silent.history] == [{}, {}]


def test_observers_see_every_step_as_it_happens(task) -> None:
    class Seen(Observer):
        def __init__(self) -> None:
            self.steps: list[StepRecord] = []

        def recorded(self, record: StepRecord, x: np.ndarray) -> None:
            self.steps.append(record)

    seen = Seen()
    run = fedpace.simulate(fedpace.algorithms.fedavg(steps=1), task, rounds=3, observers=[seen])
    assert seen.steps == run.history


def test_traces_fill_every_clients_time_and_can_be_left_out(task) -> None:
    population = Population.from_times([1.0, 2.0], up_s=0.5)
    run = fedpace.simulate(fedpace.algorithms.fedavg(steps=1), task, population, rounds=2)
    kinds = [(row.kind, row.start, row.end) for row in run.timeline() if row.client == 0]
    assert kinds[:3] == [("train", 0.0, 1.0), ("upload", 1.0, 1.5), ("idle", 1.5, 2.5)]
    untraced = fedpace.simulate(fedpace.algorithms.fedavg(steps=1), task, population, rounds=2, traces=False)
    assert untraced.timeline() == []
    assert untraced.to_json() == run.to_json()


@pytest.mark.filterwarnings("ignore:overflow|invalid value:RuntimeWarning")
def test_a_diverged_run_is_kept_in_the_error(task) -> None:
    """Steps of 3 on curvature 1 multiply the distance to each centre by -2: 2^1024 is too much for float64."""
    with pytest.raises(DivergedError) as error:
        fedpace.simulate(fedpace.algorithms.fedavg(client_lr=3.0, steps=1), task, rounds=2000)
    run = error.value.run
    assert 1000 < len(run.history) < 1030
    assert np.isfinite(run.model).all()


def test_a_stalled_run_is_kept_in_the_error(task) -> None:
    leaves = Population.from_times(1.0).with_windows([(0, 0.0, 2.5), (1, 0.0, 2.5)])
    with pytest.raises(StalledError) as error:
        fedpace.simulate(fedpace.algorithms.fedavg(steps=1), task, leaves, rounds=10)
    assert len(error.value.run.history) == 2


def test_an_interrupted_run_is_kept_in_the_error(task, monkeypatch) -> None:
    evaluations = iter([{"loss": 1.0}, {"loss": 0.5}])

    def evaluate(x: np.ndarray) -> dict[str, float]:
        try:
            return next(evaluations)
        except StopIteration:
            raise KeyboardInterrupt from None

    monkeypatch.setattr(task, "evaluate", evaluate)
    with pytest.raises(InterruptedRun) as error:
        fedpace.simulate(fedpace.algorithms.fedavg(steps=1), task, rounds=10)
    assert error.value.run.metrics == {"loss": 0.5}


def test_progress_is_shown_on_stderr_only_when_asked_for(task, capsys) -> None:
    fedpace.simulate(fedpace.algorithms.fedavg(steps=1), task, rounds=2)
    assert capsys.readouterr() == ("", "")
    fedpace.simulate(fedpace.algorithms.fedavg(steps=1), task, rounds=2, progress=True)
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("fedavg on quadratics, 2 clients\n  step 1/2  loss ")


def test_a_finished_run_lets_go_of_its_task_at_once() -> None:
    """Caches, client memories and data are freed with the run, not whenever the collector comes by."""
    gc.disable()
    try:
        task = fedpace.tasks.quadratics([1.0, 2.0])
        fedpace.simulate(fedpace.algorithms.ca2fl(buffer=1, concurrency=2), task, rounds=3)
        gone = weakref.ref(task)
        del task
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"algorithm": algorithms.fedavg}, "algorithm must be a value such as fedpace.algorithms.fedavg()"),
        ({"algorithm": "fedavg"}, "algorithm must be a value such as"),
        (
            {"task": "digits"},
            "task must be a value such as fedpace.tasks.load('digits', clients=100); got 'digits'",
        ),
        ({"population": "defedavg"}, "population must be None or a fedpace.sim.Population; got 'defedavg'"),
    ],
)
def test_parts_that_are_none_are_told_apart(task, parts, message: str) -> None:
    right = {"algorithm": algorithms.fedavg(steps=1), "task": task, "population": None}
    with pytest.raises(ConfigError, match=re.escape(message)):
        fedpace.simulate(**{**right, **parts}, rounds=1)
