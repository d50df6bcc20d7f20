"""The canary audit: right where the answer is known, below the claim of a sound run, above that of a broken one."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom, norm

import fedpace
from fedpace.check import Canaries
from fedpace.pace import Poisson, Rounds
from fedpace.privacy import Accounting, ClientDP, SeededNoise, calibrated
from fedpace.privacy.audit import audited, estimate, lower_bound, probability, scores

pytest.importorskip("dp_accounting", reason="pip install 'fedpace[privacy]'")
DELTA, STEPS, SIZE, COUNT = 1e-5, 6, 10_000, 600


# ------------------------------------------------------------ where the answer is known


def released(seed, noise, clip=1.0):
    """The sum of the canaries that are clients, with noise, once."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((COUNT, SIZE))
    rows *= clip / np.linalg.norm(rows, axis=1, keepdims=True)
    included = rng.random(COUNT) < 0.5
    total = rows[included].sum(axis=0) + noise * clip * rng.standard_normal(SIZE)
    return scores(rows, [np.zeros(SIZE), total]), included


def test_scores_of_directions_that_were_no_clients_are_standard_normal():
    found, included = released(0, 2.0)
    out = found[~included]
    assert abs(out.mean()) < 5 / math.sqrt(len(out)) and abs(out.std() - 1) < 5 / math.sqrt(2 * len(out))


def test_the_estimate_of_one_gaussian_release_is_its_exact_epsilon():
    noise = 2.2
    exact = Accounting("add-or-remove", noise, COUNT, COUNT).epsilon(1, DELTA)
    found = [released(seed, noise) for seed in range(5)]
    mean = np.mean([audited(*each, DELTA).estimate for each in found])
    assert abs(mean - exact) < 0.15 * exact


def test_the_estimate_of_two_normal_distributions_is_that_of_the_gaussian_mechanism():
    """Means a apart, equal variances: delta(eps) = Phi(a/2 - eps/a) - e^eps Phi(-a/2 - eps/a)."""
    a = 0.5
    sample = np.array([-1.0, 1.0] * 50) * math.sqrt(99 / 100) + a  # mean a, standard deviation 1
    epsilon = estimate(sample, DELTA)
    delta = norm.cdf(a / 2 - epsilon / a) - math.exp(epsilon) * norm.cdf(-a / 2 - epsilon / a)
    assert delta == pytest.approx(DELTA, rel=1e-3)


def test_without_delta_the_bound_is_the_binomial_one():
    assert probability(600, 100, 80, math.log(3), 0.0) == pytest.approx(binom.sf(79, 100, 0.75), rel=1e-12)
    epsilon = lower_bound(600, 100, 80, 0.0)
    assert binom.sf(79, 100, 1 / (1 + math.exp(-epsilon))) == pytest.approx(0.05, rel=1e-2)


def test_delta_costs_and_chance_refutes_nothing():
    assert lower_bound(600, 100, 80, 1e-4) < lower_bound(600, 100, 80, 0.0)
    assert lower_bound(600, 100, 50, 0.0) == 0.0


def test_only_guesses_that_are_right_are_counted():
    included = np.array([True, False] * 5)
    found = np.where(included, 1.0, -1.0) + np.arange(10) / 100
    assert audited(found, included, DELTA, guesses=4).correct == 4
    assert audited(-found, included, DELTA, guesses=4).correct == 0


# ------------------------------------------------------------ whole runs


def audit(seed, length=1.0):
    """Ten thousand parameters and more, 600 canaries, every one a client of every step or of none."""
    base = fedpace.tasks.load("digits", clients=10, model="mlp:160", seed=seed)
    canaries = Canaries(base, length, seed=seed)
    assert base.layout.size >= 10_000 and len(canaries.directions) == COUNT
    pace = Rounds(None, Poisson())
    rule = calibrated(ClientDP(epsilon=2.0, delta=DELTA), pace, canaries.task.clients, STEPS)
    algorithm = replace(fedpace.algorithms.fedavg(steps=1), pace=pace, privacy=rule)
    options = {"rounds": STEPS, "seed": seed, "keep_models": True, "evaluate_every": None, "traces": False}
    run = fedpace.simulate(algorithm, canaries.task, **options)
    assert 1.9 < run.privacy.epsilon <= 2.0
    return canaries.audit(run.models, DELTA), run.privacy.epsilon


def test_of_a_sound_run_the_bound_is_below_the_claim():
    found, claim = audit(0)
    assert found.lower_bound < claim and 0 < found.estimate < 1.5 * claim


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
def test_of_ten_sound_runs_the_bound_is_below_the_claim(seed):
    found, claim = audit(seed)
    assert found.lower_bound < claim


class Quieter(SeededNoise):
    """A tenth of the noise that was promised."""

    def normal(self, size, *name):
        return SeededNoise.normal(self, size, *name) / 10


def test_noise_secretly_divided_by_ten_is_found(monkeypatch):
    monkeypatch.setattr("fedpace.server.machine.SeededNoise", Quieter)
    found, claim = audit(0)
    assert found.lower_bound > claim


def test_clipping_secretly_skipped_is_found_and_clipping_is_not(monkeypatch):
    found, claim = audit(0, length=20.0)
    assert found.lower_bound < claim
    monkeypatch.setattr("fedpace.privacy.aggregation.shortened", lambda v, bound: v)
    found, claim = audit(0, length=20.0)
    assert found.lower_bound > claim
