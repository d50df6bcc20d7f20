"""Client learning rates by server step, against x - c shrinking by (1 - η_t) in every round."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import fedpace
from fedpace import Algorithm, check
from fedpace.algorithms import fedbuff, scaffold
from fedpace.errors import ConfigError
from fedpace.local import SGD, Cosine, ScheduledSGD, StepDecay, Warmup
from fedpace.study.rebuild import algorithm_from

CENTRE = 2.0
TASK = fedpace.tasks.quadratics([0.0, 4.0], initial=10.0)


def test_the_schedules_are_their_equations() -> None:
    assert [StepDecay(2, 0.5).factor(t) for t in range(5)] == [1.0, 1.0, 0.5, 0.5, 0.25]
    cosine = Cosine(4, end=0.2)
    assert [cosine.factor(t) for t in (0, 2, 4, 9)] == pytest.approx([1.0, 0.6, 0.2, 0.2])
    assert cosine.factor(1) == pytest.approx(0.2 + 0.8 * (1 + math.cos(math.pi / 4)) / 2)
    assert [Warmup(4).factor(t) for t in range(6)] == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]
    assert [Warmup(2, StepDecay(1, 0.5)).factor(t) for t in range(5)] == [0.5, 1.0, 1.0, 0.5, 0.25]


@pytest.mark.parametrize("schedule", [StepDecay(2, 0.5), Cosine(5), Warmup(3, Cosine(4))], ids=str)
def test_round_t_trains_at_its_own_rate(schedule) -> None:
    local = ScheduledSGD(0.2, steps=1, by_step=schedule)
    run = fedpace.simulate(Algorithm(local=local), TASK, rounds=6, keep_models=True)
    away = 10.0 - CENTRE
    for t, model in enumerate(run.models):
        away *= 1 - 0.2 * schedule.factor(t)
        assert model[0] - CENTRE == pytest.approx(away, rel=1e-12)


def test_a_schedule_that_stays_at_one_changes_no_bit() -> None:
    plain = fedbuff(client_lr=0.1, steps=3, batch_size=5, buffer=2, concurrency=4)
    task = fedpace.tasks.load("digits", clients=6, model="softmax")
    local = ScheduledSGD(0.1, steps=3, batch_size=5, by_step=StepDecay(1, 1.0))
    one, other = (
        fedpace.simulate(rule, task, fedpace.sim.Population.half_normal(3.0), rounds=5)
        for rule in (plain, replace(plain, local=local))
    )
    np.testing.assert_array_equal(one.model, other.model)


def test_corrections_are_of_the_rate_that_was_used() -> None:
    """SCAFFOLD by hand, two local steps, clients of different curvature: c_i is the session's mean gradient."""
    centres, curvatures, rates = [0.0, 4.0], [1.0, 3.0], [0.1, 0.05, 0.025, 0.0125]
    local = ScheduledSGD(0.1, steps=2, by_step=StepDecay(1, 0.5))
    task = fedpace.tasks.quadratics(centres, curvatures, initial=10.0)
    run = fedpace.simulate(replace(scaffold(), local=local), task, rounds=len(rates), keep_models=True)
    x, c, own = 10.0, 0.0, [0.0, 0.0]
    for rate, model in zip(rates, run.models, strict=True):
        ends, after = [], []
        for centre, k, c_i in zip(centres, curvatures, own, strict=True):
            first = k * (x - centre)
            y = x - rate * (first + c - c_i)
            second = k * (y - centre)
            ends.append(y - rate * (second + c - c_i))
            after.append((first + second) / 2)
        x, c, own = sum(ends) / 2, sum(after) / 2, after
        assert model[0] == pytest.approx(x, rel=1e-10)


def test_it_is_a_local_rule_that_reads_back() -> None:
    local = ScheduledSGD(0.2, epochs=1, batch_size=10, momentum=0.5, by_step=Warmup(3, Cosine(50)))
    assert check.all(local).ok, check.all(local)
    algorithm = Algorithm(local=local)
    assert algorithm_from(repr(algorithm)) == algorithm
    assert local.at(0) == SGD(0.2 / 3, epochs=1, batch_size=10, momentum=0.5)


def test_what_has_no_schedule_or_a_proximal_term_is_refused() -> None:
    with pytest.raises(ConfigError, match="by_step must be a rule such as Cosine"):
        ScheduledSGD(0.1, steps=1)
    with pytest.raises(ConfigError, match="a_i would change with the rate"):
        ScheduledSGD(0.1, steps=1, prox_mu=0.5, by_step=Cosine(3))
    with pytest.raises(ConfigError, match=r"Cosine.end must be in \(0, 1\]"):
        Cosine(3, end=0.0)


def test_a_plain_function_is_a_schedule_that_no_file_can_hold(tmp_path, monkeypatch, capsys) -> None:
    """Round t trains at 0.2 / (t + 1); the run is saved and resumed by its own call, and not as TOML."""
    from fedpace.cli import main

    monkeypatch.setenv("FEDPACE_HOME", str(tmp_path))

    def hyperbola(t: int) -> float:
        return 1 / (t + 1)

    rule = Algorithm(local=ScheduledSGD(0.2, steps=1, by_step=hyperbola))
    run = fedpace.simulate(rule, TASK, rounds=4, keep_models=True)
    away = 10.0 - CENTRE
    for t, model in enumerate(run.models):
        away *= 1 - 0.2 / (t + 1)
        assert model[0] - CENTRE == pytest.approx(away, rel=1e-12)
    saved = fedpace.simulate(rule, TASK, rounds=4, store="by-function")
    np.testing.assert_array_equal(saved.model, run.model)
    assert main(["runs", "export", "by-function", "-o", str(tmp_path / "a.toml")]) == 2
    assert "algorithm of a run must be without plain functions to be in a file" in capsys.readouterr().err
    other = Algorithm(local=ScheduledSGD(0.2, steps=1, by_step=lambda t: 2 / (t + 2)))
    assert repr(other) != repr(rule)
    with pytest.raises(ConfigError, match="another algorithm"):
        fedpace.simulate(other, TASK, rounds=4, store="by-function")
    with pytest.raises(ConfigError, match=r"\(0\) must be > 0; got 0"):
        fedpace.simulate(Algorithm(local=ScheduledSGD(0.2, steps=1, by_step=lambda t: t)), TASK, rounds=1)
