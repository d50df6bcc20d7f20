"""`fedpace.runs()`: runs that are opened, resumed, made longer."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

import fedpace
from fedpace import algorithms
from fedpace.algorithms import fedavg, fedbuff
from fedpace.errors import ConfigError, InterruptedRun
from fedpace.record.store.store import Store
from fedpace.sim import Population, presets
from fedpace.sim.observer import Observer
from fedpace.sim.resampled import Resampled
from fedpace.study.build import imported
from fedpace.study.rebuild import algorithm_from, evaluation_from, population_from, task_from

TASK = fedpace.tasks.quadratics([[0.0], [2.0], [4.0], [7.0]], initial=[1.0])
BUFFERED = fedbuff(buffer=2, concurrency=3, client_lr=0.1, steps=2)
DEVICES = Population.half_normal(5)


def is_same(one: fedpace.Run, other: fedpace.Run) -> bool:
    return one.to_json() == other.to_json() and bool((one.model == other.model).all())


class Interrupting(Observer):
    def recorded(self, record, x) -> None:
        if record.version == 4:
            raise KeyboardInterrupt


def test_the_same_call_resumes_and_then_reads_back() -> None:
    whole = fedpace.simulate(BUFFERED, TASK, DEVICES, rounds=8)
    with pytest.raises(InterruptedRun):
        fedpace.simulate(BUFFERED, TASK, DEVICES, rounds=8, store="night", observers=[Interrupting()])
    assert fedpace.runs().open("night").state == "interrupted"
    assert is_same(fedpace.simulate(BUFFERED, TASK, DEVICES, rounds=8, store="night"), whole)
    assert fedpace.runs().open("night").state == "done"
    assert is_same(fedpace.simulate(BUFFERED, TASK, DEVICES, rounds=8, store="night"), whole)


def test_a_run_is_resumed_by_its_name_alone() -> None:
    whole = fedpace.simulate(BUFFERED, TASK, DEVICES, rounds=8, seed=3, evaluate_every=3)
    with pytest.raises(InterruptedRun):
        fedpace.simulate(
            BUFFERED,
            TASK,
            DEVICES,
            rounds=8,
            seed=3,
            evaluate_every=3,
            store="a/b",
            observers=[Interrupting()],
        )
    assert is_same(fedpace.runs().open("a/b").resume(), whole)
    assert is_same(fedpace.runs().open("a/b").load(), whole)


@pytest.mark.parametrize("algorithm", [BUFFERED, fedavg(), algorithms.favano(clients_per_round=2, steps=3)])
def test_a_longer_run_is_one_of_that_length_from_the_start(algorithm: fedpace.Algorithm) -> None:
    fedpace.simulate(algorithm, TASK, DEVICES, rounds=5, evaluate_every=2, store="night")
    longer = fedpace.runs().open("night").resume(rounds=9)
    assert is_same(longer, fedpace.simulate(algorithm, TASK, DEVICES, rounds=9, evaluate_every=2))
    assert Store()["night"].rounds == 9 and len(Store().entries()) == 1


def test_schedules_that_depend_on_the_length_are_not_extended() -> None:
    staged = algorithms.multistage_fedgm(rounds=6, client_lr=0.1)
    fedpace.simulate(staged, TASK, rounds=6, store="night")
    with pytest.raises(ConfigError, match="rounds must be as before: the server's stages depend on them"):
        fedpace.runs().open("night").resume(rounds=9)


class Doubled:
    """Not fedpace's own."""

    def init(self, x):
        return None

    def apply(self, x, delta, state):
        return x + 2 * delta, state

    def __repr__(self) -> str:
        return "Doubled()"


def test_what_is_not_fedpaces_own_must_be_given_and_match() -> None:
    own = replace(fedavg(client_lr=0.1), server_opt=Doubled(), name="own")
    done = fedpace.simulate(own, TASK, rounds=3, store="own")
    saved = fedpace.runs().open("own")
    with pytest.raises(ConfigError, match="algorithm must be given: .*Doubled is not one of fedpace's own"):
        saved.resume(rounds=5)
    with pytest.raises(ConfigError, match="algorithm of own must be the one it was begun with"):
        saved.resume(rounds=5, algorithm=fedavg())
    with pytest.raises(ConfigError, match="task of own must be the one it was begun with"):
        saved.resume(algorithm=own, task=fedpace.tasks.quadratics([[1.0]]))
    assert is_same(saved.resume(algorithm=own), done)
    assert repr(saved.load().algorithm) == repr(own)  # as text


def test_functions_that_can_be_imported_are_rebuilt_from_their_names(tmp_path, monkeypatch) -> None:
    (tmp_path / "own_study_module.py").write_text(
        "import fedpace\n"
        "def task(seed):\n    return fedpace.tasks.quadratics([[float(seed)], [3.0]] * 50)  # too long to be printed\n"
        "def algorithm():\n    return fedpace.algorithms.fedavg(client_lr=0.1)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    made = {"mine": "own_study_module:algorithm"}
    fedpace.compare(made, "own_study_module:task", rounds=3, seeds=1, store="own")
    longer = fedpace.runs().open("own/mine/0").resume(rounds=5)
    assert len(longer.history) == 5
    sys.modules.pop("own_study_module")


@pytest.mark.parametrize(
    "place", ["os:abort", "shutil:rmtree", "fedpace.tasks:np", "nowhere:f", "a b:c", "fedpace.record:Run"]
)
def test_a_name_from_the_store_calls_nothing_but_functions_of_its_module(place: str) -> None:
    with pytest.raises(ConfigError):
        imported(place)


@pytest.mark.parametrize("name", algorithms.__all__)
def test_every_named_algorithm_is_rebuilt_from_what_it_prints(name: str) -> None:
    algorithm = getattr(algorithms, name)()
    assert algorithm_from(repr(algorithm)) == algorithm


def test_devices_tasks_and_intervals_too() -> None:
    for devices in (
        DEVICES,
        presets.ca2fl(),
        presets.defedavg(),
        Population.from_times([1.0, 2.0], up_s=0.5),
        Population(step_s=0.1, noise=Resampled(((0.5, 1.5), (1.0,)), ((0.0, 0.25), (-0.1,)), order=3)),
    ):
        assert population_from(repr(devices)) == devices
    assert repr(task_from(repr(TASK))) == repr(TASK)
    for text in ("EvaluationInterval(steps=2, seconds=None, size_bytes=None)", "None"):
        assert repr(evaluation_from(text)) == text


@pytest.mark.parametrize("text", ["__import__('os')", "Algorithm(local=open('x'))", "(", "1 + 1", "Run()"])
def test_text_from_the_store_executes_nothing(text: str) -> None:
    with pytest.raises(ConfigError, match="algorithm must be given"):
        algorithm_from(text)


def test_a_name_that_another_experiment_has_is_refused() -> None:
    fedpace.simulate(fedavg(), TASK, rounds=2, store="night")
    with pytest.raises(ConfigError, match="'night' has another rounds: '2'; here it is '3'"):
        fedpace.simulate(fedavg(), TASK, rounds=3, store="night")
    with pytest.raises(ConfigError, match="run must be one of night"):
        fedpace.runs().open("nigth")


def test_runs_are_listed_as_a_table() -> None:
    fedpace.simulate(fedavg(), TASK, rounds=2, store="night")
    frame = fedpace.runs().to_pandas()
    assert list(frame.name) == ["night"] and list(frame.steps) == [2] and list(frame.state) == ["done"]
    assert fedpace.runs().names() == ["night"] and [run.name for run in fedpace.runs()] == ["night"]
    assert np.isfinite(frame.loss).all()
