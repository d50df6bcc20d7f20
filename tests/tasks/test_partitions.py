"""Partitions: every sample once, decided by the seed, and with the statistics they claim."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedpace.errors import ConfigError
from fedpace.random import stream
from fedpace.tasks.partition import (
    IID,
    Classes,
    Dirichlet,
    DirichletByClient,
    Natural,
    Quantity,
    Shards,
    partition,
)
from fedpace.tasks.partition.rule import apportion, level
from fedpace.tasks.partition.shards import assign

LABELS = np.repeat(np.arange(10), 200)[np.random.default_rng(0).permutation(2000)]
COVERING = [
    "iid",
    "iid:unbalanced",
    "dirichlet:0.1",
    "dirichlet:10,min=5",
    "dirichlet:0.3,balanced",
    "dirichlet:0.3,unbalanced",
    "classes:2",
    "classes:3,unbalanced",
    "shards:2",
    "shards:3,unbalanced",
    "quantity:0.5",
    "quantity:0.1,min=3",
]


def split(rule, labels=LABELS, clients=50, seed=0, groups=None):
    return partition(rule).split(labels, groups, clients, stream(seed, "partition"))


def counts(parts, labels=LABELS):
    return np.stack([np.bincount(labels[part], minlength=10) for part in parts], axis=1)


@pytest.mark.parametrize("rule", COVERING)
def test_every_sample_is_used_once(rule):
    parts = split(rule)
    assert len(parts) == 50 and all(len(part) for part in parts)
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(2000))
    assert all(np.array_equal(part, np.sort(part)) for part in parts)


@pytest.mark.parametrize("rule", COVERING)
def test_the_seed_decides(rule):
    first, again, other = (split(rule, seed=seed) for seed in (3, 3, 4))
    assert all(map(np.array_equal, first, again))
    assert not all(map(np.array_equal, first, other))


@given(
    rule=st.sampled_from(COVERING),
    clients=st.integers(5, 40),
    sizes=st.lists(st.integers(30, 90), min_size=3, max_size=6),
    seed=st.integers(0, 1000),
)
@settings(max_examples=60, deadline=None)
def test_every_sample_is_used_once_whatever_the_classes(rule, clients, sizes, seed):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    try:
        parts = split(rule, labels, clients, seed)
    except ConfigError as error:
        assert "must" in str(error)
        return
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(len(labels)))
    assert min(map(len, parts)) >= 1


def test_balanced_sizes_differ_by_one_at_most():
    for rule in ("iid", "shards:2", "dirichlet:0.3,balanced"):
        sizes = [len(part) for part in split(rule, LABELS[:1999], clients=37)]
        assert max(sizes) - min(sizes) <= 1


def test_dirichlet_shares_follow_the_distribution():
    """A client's share of a class ~ Beta(alpha, (N - 1) alpha): Kolmogorov and Smirnov do not object."""
    alpha, clients = 0.5, 20
    shares = Dirichlet(alpha).proportions(2000, clients, stream(1, "partition"))
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    law = stats.beta(alpha, alpha * (clients - 1))
    # one column: its 2,000 entries are independent
    assert stats.kstest(shares[:, 7], law.cdf).pvalue > 0.01


def test_dirichlet_counts_are_within_one_of_the_shares():
    rng = stream(5, "partition")
    shares = Dirichlet(2.0).proportions(10, 20, rng)
    parts = Dirichlet(2.0).split(LABELS, None, 20, stream(5, "partition"))
    assert np.abs(counts(parts) - 200 * shares).max() <= 1


def test_dirichlet_mixtures_by_client_follow_the_distribution():
    """With equal classes the share of a class in a client's mixture ~ Beta(alpha, (C - 1) alpha)."""
    alpha = 0.3
    shares = DirichletByClient(alpha).proportions(np.full(10, 0.1), 2000, stream(2, "partition"))
    assert stats.kstest(shares[:, 3], stats.beta(alpha, 9 * alpha).cdf).pvalue > 0.01


def test_dirichlet_by_client_gives_what_the_mixture_asks_for_while_stocks_last():
    """Far from exhaustion a client's classes are multinomial in its mixture: chi-square of the first client."""
    labels = np.repeat(np.arange(4), 50_000)
    rule = DirichletByClient(5.0)
    rng = stream(9, "partition")
    mixtures = rule.proportions(np.full(4, 0.25), 50, rng)
    first = rng.permutation(50)[0]
    parts = rule.split(labels, None, 50, stream(9, "partition"))
    observed = np.bincount(labels[parts[first]], minlength=4)
    assert stats.chisquare(observed, mixtures[first] * observed.sum()).pvalue > 0.01


def test_smaller_alpha_is_more_heterogeneous():
    """The mean share of the largest class of a client grows as alpha falls."""

    def skew(alpha):
        held = counts(split(f"dirichlet:{alpha}"))
        return (held.max(axis=0) / held.sum(axis=0)).mean()

    assert skew(100) < skew(1) < skew(0.1)


def test_a_least_size_is_kept_and_taken_from_the_largest():
    held = counts(split("dirichlet:0.05,min=12")).sum(axis=0)
    assert held.min() >= 12
    raw = counts(split("dirichlet:0.05")).sum(axis=0)
    assert raw.min() < 12


def test_levelling_moves_single_samples_from_the_richest():
    table = np.array([[9, 0, 3], [1, 0, 2]])
    assert level(table, 2).tolist() == [[7, 2, 3], [1, 0, 2]]
    assert level(table, 0).tolist() == table.tolist()


@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=30), st.integers(0, 10_000))
def test_apportioned_counts_sum_up_and_are_within_one(shares, total):
    parts = apportion(np.array(shares), total)
    assert parts.sum() == total
    assert np.abs(parts - np.array(shares) / sum(shares) * total).max() <= 1 + 1e-6


def test_two_classes_per_client_as_in_defedavg():
    """100 clients, 10 classes: two distinct classes each, every class with 20 clients, in equal parts."""
    parts = split("classes:2", clients=100)
    held = counts(parts)
    assert ((held > 0).sum(axis=0) == 2).all()
    assert ((held > 0).sum(axis=1) == 20).all()
    assert set(held[held > 0]) == {10}


def test_every_class_has_equally_many_clients_when_it_does_not_come_out_even():
    for clients in (7, 23):
        held = assign(10, clients, 3, stream(0, "partition"))
        assert (held.sum(axis=0) == 3).all()
        assert np.ptp(held.sum(axis=1)) <= 1


def test_shards_of_mcmahan():
    """200 shards of 10 from data sorted by label: at most two classes per client when shards do not straddle."""
    held = counts(split("shards:2", clients=100))
    assert (held.sum(axis=0) == 20).all()
    assert ((held > 0).sum(axis=0) <= 2).all()


def test_quantity_skew_follows_the_distribution():
    """A client's share ~ Beta(alpha, (N - 1) alpha), over 1,500 draws."""
    labels = np.zeros(10_000, np.int64)
    shares = [
        len(Quantity(2.0).split(labels, None, 5, stream(seed, "partition"))[0]) / 1e4 for seed in range(1500)
    ]
    assert stats.kstest(shares, stats.beta(2, 8).cdf).pvalue > 0.01


def test_natural_takes_the_largest_groups():
    groups = np.array([0, 2, 2, 2, 1, 1, 0, 3])
    parts = Natural().split(np.zeros(8, np.int64), groups, 2, stream(0, "partition"))
    assert [part.tolist() for part in parts] == [[1, 2, 3], [0, 6]]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("iid", IID()),
        ("iid:unbalanced", IID("unbalanced")),
        ("dirichlet:0.3", Dirichlet(0.3)),
        ("dirichlet:0.3,min=10", Dirichlet(0.3, 10)),
        ("dirichlet:0.3,balanced", DirichletByClient(0.3)),
        ("classes:2", Classes(2)),
        ("shards:2,unbalanced", Shards(2, "unbalanced")),
        ("quantity:0.5, min=4", Quantity(0.5, 4)),
        ("natural", Natural()),
    ],
)
def test_names_of_rules(text, rule):
    assert partition(text) == rule
    assert partition(rule) is rule


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "dirichlet",
            "partition must look like dirichlet:ALPHA or dirichlet:ALPHA,balanced; got 'dirichlet'",
        ),
        (
            "dirichlet:x",
            "partition must look like dirichlet:ALPHA or dirichlet:ALPHA,balanced; got 'dirichlet:x'",
        ),
        ("dirichlet:-1", "Dirichlet.alpha must be > 0; got -1.0"),
        ("dirichlet:nan", "Dirichlet.alpha must be > 0; got nan"),
        ("dirichlet:1,min=0", "Dirichlet.minimum must be a whole number >= 1; got 0"),
        ("shards:0", "Shards.per_client must be a whole number >= 1; got 0"),
        ("shards:1.5", "partition must look like shards:S; got 'shards:1.5'"),
        ("iid:3", "partition must look like iid; got 'iid:3'"),
        ("classes:11", "Classes.per_client must be <= 10 (the number of classes); got 11"),
        ("natural", "partition natural needs data that is split by nature (shakespeare, synthetic)"),
    ],
)
def test_bad_rules_say_what_is_allowed(text, line):
    with pytest.raises(ConfigError) as error:
        split(text)
    assert str(error.value) == line


def test_an_unknown_rule_lists_them_all():
    with pytest.raises(ConfigError, match="partition must be one of iid, dirichlet:ALPHA, .* got 'dirch:3'"):
        partition("dirch:3")


@pytest.mark.parametrize(
    ("rule", "clients", "line"),
    [
        ("iid", 2001, "clients must be <= 2000 (2000 training samples, at least 1 per client); got 2001"),
        (
            "dirichlet:1,min=50",
            50,
            "clients must be <= 40 (2000 training samples, at least 50 per client); got 50",
        ),
        ("shards:3", 700, "clients must be <= 666 (2000 training samples, at least 3 per client); got 700"),
        ("classes:2", 1001, "class 3 must have a sample for each of its 201 clients; got 200"),
        ("classes:2", 4, "clients times classes per client must reach every class; class 1 has no client"),
    ],
)
def test_too_few_samples_for_the_clients(rule, clients, line):
    with pytest.raises(ConfigError) as error:
        split(rule, clients=clients)
    assert str(error.value) == line


def test_a_missing_class_is_named():
    labels = np.where(LABELS == 4, 3, LABELS)
    with pytest.raises(ConfigError, match="class 4 must have a sample for each of its 10 clients; got 0"):
        split("classes:2", labels)


def test_more_clients_than_groups():
    with pytest.raises(ConfigError, match=r"clients must be <= 2 \(groups in the data\); got 3"):
        Natural().split(np.zeros(3, np.int64), np.array([0, 0, 1]), 3, stream(0, "partition"))
