"""Every named algorithm keeps the same promises, whatever it is made of."""

import contextlib
import inspect
import itertools
import math
import warnings

import numpy as np
import pytest
from tests.six_clients import TASK, made

import fedpace
from fedpace import algorithms
from fedpace.errors import FedpaceError
from fedpace.sim import Population

NAMES = algorithms.__all__
DEVICES = Population(solve_s=(1.0, 1.3, 1.7, 2.3, 3.1, 4.7), up_s=0.1, down_s=0.2)


def run(name: str, *, seed: int = 0, **more: object) -> fedpace.Run:
    return fedpace.simulate(made(name), TASK, DEVICES, rounds=12, seed=seed, keep_models=True, **more)


@pytest.mark.parametrize("name", NAMES)
def test_history_is_what_the_contract_says(name):
    result = run(name)
    assert [record.version for record in result.history] == list(range(1, 13))
    seconds = [record.virtual_seconds for record in result.history]
    assert seconds == sorted(seconds) and seconds[0] > 0
    for record in result.history:
        assert len(record.clients) == len(record.staleness) >= 1
        assert all(0 <= client < 6 for client in record.clients)
        assert all(0 <= age < record.version for age in record.staleness)
        assert record.bytes_up > 0 and record.bytes_down >= 0
        assert set(record.metrics) == {"loss", "distance"} and all(
            map(math.isfinite, record.metrics.values())
        )
    assert result.final["bytes_up"] == sum(record.bytes_up for record in result.history)
    assert np.array_equal(result.models[-1], result.model) and len(result.models) == 12


@pytest.mark.parametrize("name", NAMES)
def test_a_senseless_parameter_is_answered_in_one_line(name, tmp_path, monkeypatch):
    """Whatever a parameter is given: it runs, or it is refused by an error of ours, never by one of Python's."""
    monkeypatch.chdir(tmp_path)
    make, odd = getattr(algorithms, name), (None, "x", -1, 0, 1.5, True, (1,), [[1]], {}, math.nan)
    known = inspect.signature(make).parameters
    sizes = {key: 2 for key in ("buffer", "concurrency", "clients_per_round", "draws") if key in known}
    for parameter, value in itertools.product(known, odd):
        with contextlib.suppress(FedpaceError), warnings.catch_warnings(action="ignore"):
            fedpace.simulate(make(**{**sizes, parameter: value}), TASK, rounds=1, evaluate_every=None)


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same_bits(name):
    first, second = run(name, seed=3), run(name, seed=3)
    assert first.to_json() == second.to_json()
    assert np.array_equal(np.stack(first.models), np.stack(second.models))


@pytest.mark.parametrize("name", NAMES)
def test_computing_what_nobody_uses_changes_nothing(name):
    assert np.array_equal(run(name).model, run(name, eager=True).model)


@pytest.mark.parametrize("name", NAMES)
def test_training_approaches_the_optimum(name):
    """On a strongly convex task every algorithm ends nearer to the optimum than it began."""
    start = np.linalg.norm(TASK.optimum)
    result = fedpace.simulate(made(name), TASK, DEVICES, rounds=150, evaluate_every=None)
    assert np.linalg.norm(result.model - TASK.optimum) < 0.6 * start


@pytest.mark.parametrize("name", NAMES)
def test_every_algorithm_has_a_line_and_a_citation(name):
    doc = inspect.getdoc(getattr(algorithms, name))
    assert doc and doc.splitlines()[0].endswith(".")
    assert fedpace.cite(made(name))
    assert made(name).name == name


@pytest.mark.parametrize("name", NAMES)
def test_an_algorithm_is_a_value(name):
    assert made(name) == made(name)
    assert repr(made(name)) == repr(made(name))
