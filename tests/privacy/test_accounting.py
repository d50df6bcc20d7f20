"""Epsilon, against the library's own accountants, exact formulas and published tables."""

import math

import pytest
from scipy.stats import norm

from fedpace.errors import ConfigError
from fedpace.pace import Arrivals, Buffered, Immediate, Poisson, Polled, Replayed, Rounds, Scripted, Uniform
from fedpace.privacy import Accounting, AdaptiveClip, ClientDP, accounting_of, calibrated, composed
from fedpace.privacy.spent import Privacy

dp = pytest.importorskip("dp_accounting", reason="pip install 'fedpace[privacy]'")
pld = pytest.importorskip("dp_accounting.pld")
rdp = pytest.importorskip("dp_accounting.rdp")
NEAR = dp.NeighboringRelation


def by_library(accountant, event, count, delta):
    return accountant.compose(dp.SelfComposedDpEvent(event, count)).get_epsilon(delta)


@pytest.mark.parametrize(
    ("pace", "rule", "adjacency", "accountant"),
    [
        (Rounds(10, Poisson()), ClientDP(), "add-or-remove", "PLD"),
        (Rounds(10), ClientDP(), "replace-one", "RDP"),
        (Rounds(None), ClientDP(), "replace-one", "RDP"),
        (Rounds(None, Scripted([[0]])), ClientDP(), "zero-out", "PLD"),
        (Buffered(5, 10), ClientDP(), "zero-out", "PLD"),
        (Immediate(10), ClientDP(), "zero-out", "PLD"),
        (Arrivals(5, distinct=True), ClientDP(), "zero-out", "PLD"),
        (Polled(5, Uniform()), ClientDP(), "zero-out", "PLD"),
        (Replayed(3, 5), ClientDP(), "zero-out", "PLD"),
        (Rounds(10), ClientDP(mechanism="tree"), "zero-out", "RDP"),
        (Buffered(5, 10), ClientDP(mechanism="tree"), "zero-out", "RDP"),
    ],
    ids=str,
)
def test_only_sampled_rounds_are_amplified(pace, rule, adjacency, accountant):
    known = accounting_of(rule, pace, 100)
    assert (known.adjacency, known.accountant) == (adjacency, accountant)
    assert known.per_step == (adjacency != "zero-out")


@pytest.mark.parametrize("steps", [1, 40])
def test_poisson_sampling_is_the_librarys_pld(steps):
    event = dp.PoissonSampledDpEvent(0.1, dp.GaussianDpEvent(1.0))
    known = Accounting("add-or-remove", 1.0, 100, 10).epsilon(steps, 1e-5)
    assert known == pytest.approx(by_library(pld.PLDAccountant(), event, steps, 1e-5), rel=2e-4)


def test_a_fixed_size_is_the_librarys_rdp_with_half_the_noise():
    event = dp.SampledWithoutReplacementDpEvent(100, 10, dp.GaussianDpEvent(2.0))
    theirs = by_library(rdp.RdpAccountant(neighboring_relation=NEAR.REPLACE_ONE), event, 20, 1e-5)
    assert Accounting("replace-one", 4.0, 100, 10).epsilon(20, 1e-5) == pytest.approx(theirs, rel=1e-12)


def test_trees_are_the_librarys_rdp_composed_over_trees():
    event = dp.SingleEpochTreeAggregationDpEvent(5.0, [32])
    theirs = by_library(rdp.RdpAccountant(neighboring_relation=NEAR.REPLACE_SPECIAL), event, 3, 1e-5)
    assert Accounting("zero-out", 5.0, 100, 1, 32).epsilon(3, 1e-5) == pytest.approx(theirs, rel=1e-12)


@pytest.mark.parametrize("contributions", [1, 9])
def test_zero_out_is_the_exact_gaussian_mechanism(contributions):
    """Balle & Wang 2018, Theorem 8, of one Gaussian with noise z / sqrt(m)."""
    noise = 4.0 / math.sqrt(contributions)
    epsilon = Accounting("zero-out", 4.0, 100, 1).epsilon(contributions, 1e-5)
    a, b = 1 / (2 * noise) - epsilon * noise, -1 / (2 * noise) - epsilon * noise
    delta = norm.cdf(a) - math.exp(epsilon) * norm.cdf(b)
    assert delta == pytest.approx(1e-5, rel=5e-3)


def test_published_table_of_the_moments_accountant():
    """Abadi et al. 2016, section 3.2: q = 0.01, sigma = 4, 10,000 steps, delta 1e-5 is epsilon 1.26; PLD is tighter."""
    epsilon = Accounting("add-or-remove", 4.0, 10_000, 100).epsilon(10_000, 1e-5)
    assert 0.9 < epsilon < 1.26


def test_an_adaptive_clip_costs_what_the_multiplier_says():
    """RDP of sum and count, composed, is that of one Gaussian; for both adjacencies of sampled rounds."""
    adaptive, z = AdaptiveClip(noise=1.5), 1.2
    for halved in (1.0, 2.0):  # replace-one: sensitivities 2 C and 1
        pair = rdp.RdpAccountant()
        pair.compose(dp.GaussianDpEvent(adaptive.raised(z, 20.0) / halved))
        pair.compose(dp.GaussianDpEvent(2 * 1.5 / halved))
        one = rdp.RdpAccountant().compose(dp.GaussianDpEvent(z / halved))
        assert pair.get_epsilon(1e-5) == pytest.approx(one.get_epsilon(1e-5), rel=1e-9)


def test_nothing_was_spent_before_the_first_step():
    assert Accounting("add-or-remove", 1.0, 100, 10).epsilon(0, 1e-5) == 0.0


@pytest.mark.parametrize(
    "known", [Accounting("add-or-remove", 1.0, 100, 10), Accounting("zero-out", 4.0, 9, 1)]
)
def test_the_most_uses_are_those_whose_epsilon_stays_within_the_budget(known):
    budget = known.epsilon(5, 1e-5)
    assert known.most_uses(budget, 1e-5) == 5
    assert known.most_uses(budget * 0.999, 1e-5) == 4
    assert known.most_uses(known.epsilon(1, 1e-5) * 0.999, 1e-5) == 0


def test_the_noise_for_a_budget_is_the_least_that_keeps_it():
    rule = calibrated(ClientDP(epsilon=2.0), Rounds(10, Poisson()), 100, 10)
    known = accounting_of(rule, Rounds(10, Poisson()), 100)
    assert 0.995 * 2.0 < known.epsilon(10, 1e-5) <= 2.0


def test_noise_for_a_budget_needs_to_know_how_often_a_client_takes_part():
    with pytest.raises(ConfigError, match="contributions must be given"):
        calibrated(ClientDP(epsilon=2.0), Buffered(5, 10), 100, 10)
    rule = calibrated(ClientDP(epsilon=2.0, contributions=4), Buffered(5, 10), 100, 10)
    assert Accounting("zero-out", rule.noise_multiplier, 100, 5).epsilon(4, 1e-5) <= 2.0


def spent(known, uses, delta=1e-5):
    return Privacy(
        known.epsilon(uses, delta),
        delta,
        known.accountant,
        known.adjacency,
        known.noise_multiplier,
        1.0,
        "gaussian",
        uses,
        known.clients,
        known.cohort,
        known.tree_steps,
    )


def test_runs_on_the_same_clients_add_up():
    """Two runs of 3 and 4 steps are one of 7; one adjacency does not add to another."""
    poisson, fixed = Accounting("add-or-remove", 1.0, 100, 10), Accounting("replace-one", 4.0, 100, 10)
    both = composed([spent(poisson, 3), spent(poisson, 4), spent(fixed, 2, 1e-6)])
    assert [(each.adjacency, each.runs, each.delta) for each in both] == [
        ("add-or-remove", 2, 1e-5),
        ("replace-one", 1, 1e-6),
    ]
    assert [each.epsilon for each in both] == [poisson.epsilon(7, 1e-5), fixed.epsilon(2, 1e-6)]


def test_different_noise_adds_up_too():
    one, other = Accounting("zero-out", 4.0, 100, 1), Accounting("zero-out", 4.0, 100, 1, 8)
    [both] = composed([spent(one, 2), spent(other, 1)])
    assert max(one.epsilon(2, 1e-5), other.epsilon(1, 1e-5)) < both.epsilon
    assert both.epsilon <= one.epsilon(2, 1e-5) * 1.2 + other.epsilon(1, 1e-5)


def test_what_was_spent_reads_back_from_plain_values():
    known = spent(Accounting("add-or-remove", 1.0, 100, 10), 2)
    assert Privacy.of({**known.plain(), "covers": "the released models"}) == known
    assert known.accounting == Accounting("add-or-remove", 1.0, 100, 10)
