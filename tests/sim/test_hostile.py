"""Hostile clients: each attack is the algebra it is named after, and nothing but the seed decides it."""

import math
from dataclasses import replace
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

import fedpace
from fedpace import tasks
from fedpace.aggregate import Median
from fedpace.algorithms import fedavg, fedbuff, fednova, scaffold
from fedpace.errors import ConfigError
from fedpace.sim import Hostile, Population
from fedpace.sim.hostile import ATTACKS
from fedpace.vector import Vector

CENTRES = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
LR = 0.5
STEP = LR * CENTRES  # one exact gradient step from 0 on (x - c)^2 / 2


def after_one_round(
    attack: str, strength: float | None = None, seed: int = 0
) -> tuple[Vector, frozenset[int]]:
    """The model after one round of FedAvg from 0, and who attacked."""
    hostile = Hostile(0.4, attack, strength)
    run = fedpace.simulate(
        fedavg(client_lr=LR, steps=1),
        tasks.quadratics(CENTRES),
        Population(hostile=hostile),
        rounds=1,
        seed=seed,
    )
    return run.model, hostile.members(5, seed)


def mean_with(instead: Any, members: frozenset[int]) -> float:
    """The mean update where hostile client i sends instead(i)."""
    return float(np.mean([instead(i) if i in members else STEP[i] for i in range(5)]))


def test_a_share_of_the_clients_is_hostile_and_the_seed_says_who() -> None:
    rule = Hostile(0.4, "sign_flip")
    assert {len(rule.members(5, seed)) for seed in range(20)} == {2}
    assert rule.members(5, 3) == rule.members(5, 3)
    assert len({rule.members(5, seed) for seed in range(20)}) > 3
    assert len(Hostile(0.29, "noise").members(100, 0)) == 29
    assert Hostile(0.0, "noise").members(100, 0) == frozenset()


@pytest.mark.parametrize(
    ("attack", "strength", "factor"),
    [("sign_flip", None, -1.0), ("sign_flip", 3.0, -3.0), ("scale", None, 10.0), ("free_rider", None, 0.0)],
)
def test_attacks_that_scale_the_own_update(attack: str, strength: float | None, factor: float) -> None:
    model, members = after_one_round(attack, strength)
    assert model[0] == pytest.approx(mean_with(lambda i: factor * STEP[i], members), rel=1e-15)


def test_inner_product_manipulation_sends_the_opposite_of_the_hostile_mean() -> None:
    model, members = after_one_round("ipm", 0.7)
    own = np.mean([STEP[i] for i in members])
    assert model[0] == pytest.approx(mean_with(lambda i: -0.7 * own, members), rel=1e-14)


def test_a_little_is_enough_shifts_by_z_standard_deviations() -> None:
    """n = 5, f = 2: m = floor(5/2 + 1) - 2 = 1, z = Phi^-1(2/3)."""
    model, members = after_one_round("alie")
    own = [STEP[i] for i in members]
    crafted = np.mean(own) - NormalDist().inv_cdf(2 / 3) * np.std(own)
    assert model[0] == pytest.approx(mean_with(lambda i: crafted, members), rel=1e-14)


def test_noise_is_as_long_as_asked() -> None:
    task = tasks.quadratics(np.ones((4, 10_000)))
    hostile = Hostile(0.25, "noise", 2.0)
    run = fedpace.simulate(fedavg(client_lr=LR, steps=1), task, Population(hostile=hostile), rounds=1)
    honest = np.full(10_000, 3 * LR / 4)
    assert np.linalg.norm(run.model - honest) == pytest.approx(2.0 * LR * 100 / 4, rel=0.05)


def test_flipped_labels_are_those_of_the_hostile_clients_only() -> None:
    task = tasks.load("digits", clients=10)
    rule = Hostile(0.3, "label_flip")
    members = rule.members(10, 0)
    flipped = task.mislabelled(members)
    for client in range(10):
        own, other = task.client_data(client), flipped.client_data(client)
        expected = 9 - own.targets if client in members else own.targets
        assert other.targets.equal(expected) and other.inputs.equal(own.inputs)
    kwargs: dict[str, Any] = {"rounds": 3, "evaluate_every": None}
    algorithm = fedavg(clients_per_round=5)
    attacked = fedpace.simulate(algorithm, task, Population(hostile=rule), **kwargs)
    assert attacked.model.tobytes() == fedpace.simulate(algorithm, flipped, **kwargs).model.tobytes()
    assert attacked.model.tobytes() != fedpace.simulate(algorithm, task, **kwargs).model.tobytes()


def test_flipping_needs_labels() -> None:
    population = Population(hostile=Hostile(0.5, "label_flip"))
    with pytest.raises(ConfigError, match="one with class labels, for label_flip"):
        fedpace.simulate(fedavg(), tasks.quadratics([0.0, 1.0]), population, rounds=1)


def test_false_fields_move_a_mean_by_samples() -> None:
    """Client i claims 1000 times its sample: with weights by samples it is nearly alone."""
    hostile = Hostile(0.2, "false_fields")
    algorithm = fedavg(client_lr=LR, steps=1, weighting="samples")
    run = fedpace.simulate(algorithm, tasks.quadratics(CENTRES), Population(hostile=hostile), rounds=1)
    (liar,) = hostile.members(5, 0)
    weights = np.where(np.arange(5) == liar, 1000.0, 1.0)
    assert run.model[0] == pytest.approx(np.average(STEP, weights=weights), rel=1e-14)


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("name", ["fedbuff", "scaffold", "fednova"])
def test_workers_change_nothing(attack: str, name: str) -> None:
    algorithm = {
        "fedbuff": fedbuff(buffer=3, concurrency=6, steps=2),
        "scaffold": scaffold(clients_per_round=5, steps=2),
        "fednova": fednova(clients_per_round=5, epochs=(1, 2)),
    }[name]
    task = tasks.load("digits", clients=10)
    population = Population.half_normal(2.0, 0.5, hostile=Hostile(0.4, attack))
    kwargs: dict[str, Any] = {"rounds": 4, "evaluate_every": None, "seed": 2}
    one = fedpace.simulate(algorithm, task, population, compute="inline", **kwargs)
    two = fedpace.simulate(algorithm, task, population, compute="pool", workers=2, **kwargs)
    assert one.model.tobytes() == two.model.tobytes()
    honest = fedpace.simulate(algorithm, task, replace(population, hostile=None), **kwargs)
    expected_same = attack == "false_fields" and name != "fednova"  # a plain mean believes no field
    assert (one.model.tobytes() == honest.model.tobytes()) == expected_same


def test_a_run_with_attacks_resumes_bit_for_bit(tmp_path: Any) -> None:
    class Once(fedpace.sim.Observer):
        def stepped(self, step: Any, now: float, tally: Any) -> None:
            if step.version == 5:
                raise fedpace.Stop("halfway")

    task = tasks.quadratics(np.arange(16.0).reshape(8, 2))
    algorithm = fedbuff(buffer=3, concurrency=6, client_lr=0.1, steps=2)
    population = Population.half_normal(2.0, 0.5, hostile=Hostile(0.4, "alie"))
    kwargs: dict[str, Any] = {"rounds": 12, "evaluate_every": None}
    whole = fedpace.simulate(algorithm, task, population, **kwargs)
    assert fedpace.simulate(
        algorithm, task, population, checkpoint=tmp_path, observers=[Once()], **kwargs
    ).stopped
    resumed = fedpace.simulate(algorithm, task, population, checkpoint=tmp_path, **kwargs)
    assert resumed.model.tobytes() == whole.model.tobytes()


def test_the_median_survives_what_the_mean_does_not() -> None:
    task = tasks.load("digits", clients=20, partition="iid")
    population = Population(hostile=Hostile(0.3, "scale", 100.0))
    plain = fedavg(client_lr=0.1, epochs=1)
    kwargs: dict[str, Any] = {"rounds": 15, "evaluate_every": 15}
    attacked = fedpace.simulate(replace(plain, aggregate=Median()), task, population, **kwargs)
    honest = fedpace.simulate(plain, task, **kwargs)
    assert attacked.history[-1].metrics["accuracy"] > honest.history[-1].metrics["accuracy"] - 0.05


def test_a_population_prints_who_is_hostile_and_only_then() -> None:
    assert "hostile" not in repr(Population())
    assert repr(Population(hostile=Hostile(0.1, "ipm"))).endswith(
        "hostile=Hostile(share=0.1, attack='ipm', strength=None))"
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((1.0, "noise"), r"Hostile.share must be in \[0, 1\); got 1.0"),
        ((0.1, "bribe"), "Hostile.attack must be sign_flip, noise"),
        ((0.1, "noise", math.inf), "Hostile.strength must be >= 0, or None; got inf"),
    ],
)
def test_bad_attacks_are_refused(arguments: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Hostile(*arguments)
