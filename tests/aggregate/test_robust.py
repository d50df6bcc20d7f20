"""Robust aggregation: algebra on small vectors, published breakdown points, no more memory than the updates'."""

import math
import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

import fedpace
from fedpace.aggregate import (
    Bucketed,
    CenteredClip,
    Contribution,
    GeometricMedian,
    Krum,
    Mean,
    Median,
    NormBound,
    TrimmedMean,
)
from fedpace.aggregate.robust import gathered
from fedpace.aggregate.robust.krum import squared_distances
from fedpace.algorithms import fedavg, fedbuff
from fedpace.errors import ConfigError
from fedpace.tasks import quadratics
from fedpace.vector import Vector


def combined(rule: Any, rows: Any, steps: int = 1, **more: Any) -> Vector:
    """What the rule makes of these updates, the last time of `steps`."""
    rows = np.atleast_2d(np.asarray(rows, float).T).T
    state = rule.init(rows[0], len(rows))
    for _ in range(steps):
        for i, row in enumerate(rows):
            update = Contribution(i, row, rng=lambda i=i: np.random.default_rng(i), **more)
            state = rule.add(update, rows[0], rows[0], state)
        total, state = rule.result(state)
    return total


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of two or three columns, so that small examples cross their borders."""
    monkeypatch.setattr(gathered, "BLOCK_BYTES", 200)


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("n", [1, 2, 7, 10])
def test_the_median_is_that_of_every_coordinate(n: int) -> None:
    rows = np.random.default_rng(n).normal(size=(n, 17))
    np.testing.assert_allclose(combined(Median(), rows), np.median(rows, axis=0), rtol=1e-15)


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("trim", [0.0, 0.1, 0.25, 0.29, 0.49])
def test_the_trimmed_mean_is_scipys(trim: float) -> None:
    rows = np.random.default_rng(1).normal(size=(20, 17))
    np.testing.assert_allclose(
        combined(TrimmedMean(trim), rows), stats.trim_mean(rows, trim, axis=0), rtol=1e-13
    )


def test_a_share_that_is_a_whole_number_of_updates_cuts_that_many() -> None:
    rows = np.arange(100.0)[:, None] ** 2
    assert combined(TrimmedMean(0.29), rows)[0] == np.mean(rows[29:71])  # 0.29 * 100 < 29 in floating point


def test_the_geometric_median_of_a_right_triangle_is_its_fermat_point() -> None:
    fermat = (3 - math.sqrt(3)) / 6
    z = combined(GeometricMedian(iterations=1000, tolerance=1e-12), [[0, 0], [1, 0], [0, 1]])
    np.testing.assert_allclose(z, [fermat, fermat], rtol=1e-9)


def test_the_geometric_median_of_numbers_is_their_median() -> None:
    assert combined(GeometricMedian(iterations=1000), [[0.0], [1.0], [5.0]])[0] == pytest.approx(
        1.0, abs=1e-5
    )


def test_krum_takes_the_update_that_is_closest_to_the_others() -> None:
    """n = 5, f = 1: the squares to the two nearest are 1 + 9, 1 + 4, 1 + 4, 1 + 9, ...: the first of the tie."""
    rows = [[0.0], [1.0], [3.0], [4.0], [100.0]]
    np.testing.assert_array_equal(
        Krum(1).scores(gathered.GatheredUpdates(tuple(map(np.array, rows))))[:4], [10, 5, 5, 10]
    )
    assert combined(Krum(1), rows)[0] == 1.0
    assert combined(Krum(1, keep=2), rows)[0] == 2.0


@pytest.mark.usefixtures("narrow")
def test_an_enormous_update_spoils_only_its_own_distances() -> None:
    rows = np.random.default_rng(3).normal(size=(6, 40))
    exact = ((rows[:5, None] - rows[None, :5]) ** 2).sum(-1)
    rows[5] = 1e140
    squares = squared_distances(gathered.GatheredUpdates(tuple(rows)))
    np.testing.assert_allclose(squares[:5, :5], exact, rtol=1e-12, atol=1e-12)


def test_centred_clipping_moves_by_a_radius_per_update_at_most() -> None:
    """From 0: 1/3, then 1/3 + (1 - 2/3)/3 = 4/9, then 4/9 + (1 - 8/9)/3 = 13/27; the next step goes on from there."""
    rows = [[0.0], [0.0], [9.0]]
    assert combined(CenteredClip(1.0, iterations=1), rows)[0] == pytest.approx(1 / 3, rel=1e-15)
    assert combined(CenteredClip(1.0), rows)[0] == pytest.approx(13 / 27, rel=1e-15)
    assert combined(CenteredClip(1.0, iterations=1), rows, steps=3)[0] == pytest.approx(13 / 27, rel=1e-15)
    assert combined(CenteredClip(100.0, iterations=1), rows)[0] == pytest.approx(3.0, rel=1e-15)


def test_a_norm_bound_scales_longer_updates_down() -> None:
    np.testing.assert_allclose(combined(NormBound(1.0), [[3.0, 4.0], [0.0, 0.5]]), [0.3, 0.65], rtol=1e-15)


@pytest.mark.parametrize("rule", [Median(), TrimmedMean(0.2), Krum(1)], ids=repr)
def test_buckets_of_one_are_the_rule_and_one_bucket_is_the_mean(rule: Any) -> None:
    rows = np.random.default_rng(5).normal(size=(7, 4))
    np.testing.assert_allclose(combined(Bucketed(1, rule), rows), combined(rule, rows), rtol=1e-14)
    if not isinstance(rule, Krum):
        np.testing.assert_allclose(combined(Bucketed(7, rule), rows), rows.mean(axis=0), rtol=1e-14)


def test_buckets_are_drawn_by_the_updates_own_streams() -> None:
    """Keys of clients 0 to 3 from their streams decide who shares a bucket, whatever the order of arrival."""
    keys = [np.random.default_rng(i).random() for i in range(4)]
    order = np.argsort(keys)
    rows = np.array([[1.0], [10.0], [100.0], [1000.0]])
    pairs = rows[order].reshape(2, 2).mean(axis=1)
    assert combined(Bucketed(2, Median()), rows)[0] == pytest.approx(pairs.mean())
    assert combined(Bucketed(2, TrimmedMean(0.0)), rows[::-1])[0] == pytest.approx(rows.mean())


@pytest.mark.parametrize(
    ("rule", "hostile"),
    [
        (Median(), 4),
        (TrimmedMean(0.4), 4),
        (GeometricMedian(), 4),
        (Krum(4), 4),
        (Krum(4, keep=3), 4),
        (Bucketed(2, Median()), 2),
    ],
    ids=repr,
)
@pytest.mark.parametrize("far", [10.0, 1e6, 1e20, -1e30])
def test_fewer_hostile_updates_than_the_breakdown_point_move_nothing_far(
    rule: Any, hostile: int, far: float
) -> None:
    honest = np.random.default_rng(7).uniform(-1, 1, size=(11 - hostile, 5))
    rows = np.concatenate([np.full((hostile, 5), far), honest])
    assert np.abs(combined(rule, rows)).max() <= 1 + 1e-9
    assert np.abs(combined(Mean(), rows)).max() > 1.5


def test_past_the_breakdown_point_they_do() -> None:
    rows = np.concatenate([np.full((6, 2), 1e6), np.zeros((5, 2))])
    for rule in (Median(), TrimmedMean(0.4), GeometricMedian(), Krum(4)):
        assert np.abs(combined(rule, rows)).max() > 1e5, rule


def test_old_updates_are_discounted_before_the_rule_sees_them() -> None:
    rows = [[1.0], [2.0], [9.0]]
    assert combined(Median(staleness="poly:1"), rows, staleness=3)[0] == 0.5
    assert combined(NormBound(4.0, staleness="poly:1"), rows, staleness=1)[0] == pytest.approx(7 / 6)


def test_samples_that_a_client_claims_count_for_nothing() -> None:
    assert combined(Median(), [[1.0], [2.0], [9.0]], samples=1e15)[0] == 2.0


@pytest.mark.parametrize(
    "rule",
    [Median(), TrimmedMean(0.2), Krum(3), GeometricMedian(), CenteredClip(1.0), Bucketed(2, Median())],
    ids=repr,
)
def test_memory_is_that_of_the_updates_and_a_quarter(rule: Any) -> None:
    rows = tuple(np.random.default_rng(9).normal(size=(40, 100_000)).astype(np.float32))
    state = gathered.GatheredUpdates(rows, tuple(np.linspace(0, 1, 40)))
    tracemalloc.start()
    rule.result(state)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= 0.25 * 40 * 400_000


def test_bad_parameters_are_refused() -> None:
    for build, words in (
        (lambda: TrimmedMean(0.5), r"TrimmedMean.trim must be in \[0, 0.5\); got 0.5"),
        (lambda: Krum(-1), "Krum.byzantine must be a whole number >= 0; got -1"),
        (lambda: CenteredClip(0), "CenteredClip.radius must be > 0; got 0"),
        (lambda: NormBound(math.inf), "NormBound.limit must be > 0; got inf"),
        (lambda: Bucketed(2, Mean()), "Bucketed.rule must be Median"),  # type: ignore[arg-type]
    ):
        with pytest.raises(ConfigError, match=words):
            build()


def test_krum_is_refused_where_a_step_has_too_few_updates() -> None:
    with pytest.raises(ConfigError, match=r"fewer than 2 f \+ 3"):
        replace(fedavg(client_lr=0.1, steps=1, clients_per_round=4), aggregate=Krum(1))
    task = quadratics([0.0, 1.0, 2.0, 3.0])
    with pytest.raises(ConfigError, match="clients must be >= 5"):
        fedpace.simulate(replace(fedavg(client_lr=0.1, steps=1), aggregate=Krum(1)), task, rounds=1)


@pytest.mark.parametrize(
    "algorithm",
    [fedavg(client_lr=0.5, steps=2), fedbuff(client_lr=0.5, steps=2, buffer=7, concurrency=7, server_lr=1.0)],
    ids=["fedavg", "fedbuff"],
)
def test_training_ends_near_the_honest_optimum(algorithm: fedpace.Algorithm) -> None:
    """Six clients around 1 and one at a million: the median ends among the six, the mean does not."""
    task = quadratics([0.9, 0.95, 1.0, 1.0, 1.05, 1.1, 1e6])
    run = fedpace.simulate(replace(algorithm, aggregate=Median()), task, rounds=60, evaluate_every=None)
    assert run.model[0] == pytest.approx(1.0, abs=0.1)
    mean = fedpace.simulate(algorithm, task, rounds=60, evaluate_every=None)
    assert mean.model[0] > 1e4
