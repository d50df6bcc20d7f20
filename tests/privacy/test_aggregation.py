"""The noisy sum of clipped updates: its algebra without noise, and its noise without updates."""

import math

import numpy as np
import pytest

from fedpace.aggregate import Mean, Weighted
from fedpace.aggregate.protocol import Contribution
from fedpace.errors import ConfigError
from fedpace.privacy import AdaptiveClip, ClientDP, KeyedNoise, PrivateSum, SeededNoise
from fedpace.privacy.aggregation import COUNT, SUM
from fedpace.privacy.tree import TreeStep, cover, increment
from fedpace.vector import freeze

X = freeze(np.zeros(2))


class Silent:
    """No noise."""

    def normal(self, size, *name):
        return np.zeros(size)


class Ones:
    """Noise whose every draw is one."""

    def normal(self, size, *name):
        return np.ones(size)


def contribution(client, *values, **more):
    return Contribution(client, freeze(np.array(values)), **more)


def result(rule, *updates, weights=None, divisor=4.0, noise=None, **more):
    private = PrivateSum(rule, weights or Mean(), divisor, noise or Silent(), **more)
    state = private.init(X, 10)
    for update in updates:
        state = private.add(update, X, X, state)
    return private.result(state)


def test_long_updates_are_shortened_to_the_clip_and_the_divisor_is_fixed():
    total, _ = result(ClientDP(clip=1.0), contribution(0, 3.0, 4.0), contribution(1, 0.25, -0.5))
    assert total == pytest.approx([(0.6 + 0.25) / 4, (0.8 - 0.5) / 4], rel=1e-15)


def test_a_client_counts_once_per_step():
    one, _ = result(ClientDP(), contribution(0, 0.5, 0.0))
    two, _ = result(ClientDP(), contribution(0, 0.5, 0.0), contribution(0, 0.0, 0.5))
    assert one.tolist() == two.tolist() == [0.125, 0.0]


def test_one_client_moves_the_sum_by_at_most_its_clip():
    """Whatever it sends, however it is weighted: the sensitivity that accounting counts on."""
    rng = np.random.default_rng(0)
    others = [contribution(c, *rng.normal(size=2)) for c in range(5)]
    rule = ClientDP(clip=0.7, sample_limit=10)
    for weights in (Mean(), Mean("poly"), Mean(lambda tau: 9.0), Weighted()):
        without, _ = result(rule, *others, weights=weights, divisor=1.0)
        for scale in (1e-3, 1.0, 1e30):
            one = contribution(9, *(scale * rng.normal(size=2)), samples=1e9, staleness=3)
            together, _ = result(rule, *others, one, weights=weights, divisor=1.0)
            assert np.linalg.norm(together - without) <= 0.7 * (1 + 1e-12)


def test_sample_weights_are_shares_of_the_limit():
    rule = ClientDP(clip=10.0, sample_limit=100)
    updates = contribution(0, 1.0, 0.0, samples=25), contribution(1, 0.0, 1.0, samples=500)
    total, _ = result(rule, *updates, weights=Weighted(), divisor=1.0)
    assert total.tolist() == [0.25, 1.0]


def test_stale_updates_count_less():
    total, _ = result(
        ClientDP(clip=10.0), contribution(0, 1.0, 2.0, staleness=3), weights=Mean("poly"), divisor=1.0
    )
    assert total.tolist() == [0.5, 1.0]  # (1 + 3)^-1/2


def test_noise_on_the_sum_has_the_clip_times_the_multiplier_and_an_empty_step_is_noise_alone():
    total, state = result(ClientDP(clip=0.5, noise_multiplier=3.0), noise=Ones())
    assert total.tolist() == [0.5 * 3.0 / 4] * 2 and state.step == 1


def test_every_step_draws_noise_of_its_own_and_a_step_not_taken_draws_the_same():
    private = PrivateSum(ClientDP(), Mean(), 1.0, SeededNoise(7))
    first, state = private.result(private.init(X, 3))
    second, _ = private.result(state)
    again, _ = private.result(private.init(X, 3))
    assert first.tolist() == again.tolist() != second.tolist()


def test_a_result_keeps_the_type_of_the_model():
    private = PrivateSum(ClientDP(), Mean(), 2.0, SeededNoise(0))
    state = private.init(np.zeros(3, np.float32), 3)
    state = private.add(Contribution(0, np.ones(3, np.float32)), X, X, state)
    assert private.result(state)[0].dtype == np.float32


def test_the_state_a_step_began_with_does_not_change():
    """A step that is not taken starts again from it."""
    private = PrivateSum(ClientDP(), Mean(), 2.0, Silent(), limit=1)
    settled = private.init(X, 3)
    for _ in range(2):
        total, after = private.result(private.add(contribution(0, 0.5, 0.5), X, X, settled))
        assert total.tolist() == [0.25, 0.25]
    assert (settled.members, settled.contributions, settled.spent) == (set(), {}, frozenset())
    assert (after.contributions, after.spent, after.busiest) == ({0: 1}, {0}, 1)


# ------------------------------------------------------------ the adaptive clip


def test_the_clip_follows_the_share_of_updates_below_it():
    """Three of four are below: b = (3/2 - 1/2) / 4 + 1/2 = 3/4, and C shrinks by exp(-rate (3/4 - 1/2))."""
    rule = ClientDP(clip=1.0, adaptive=AdaptiveClip(quantile=0.5, rate=0.2, noise=10.0))
    updates = [contribution(c, length, 0.0) for c, length in enumerate((0.1, 0.9, 1.0, 5.0))]
    _, state = result(rule, *updates)
    assert state.clip == math.exp(-0.2 * 0.25)


def test_an_update_that_counts_as_zero_is_neither_below_nor_above():
    private = PrivateSum(ClientDP(adaptive=AdaptiveClip(noise=10.0)), Mean(), 4.0, Silent())
    _, state = private.result(private.missed(0, private.init(X, 3)))
    assert state.clip == 1.0 and state.contributions == {0: 1}


def test_update_and_count_have_the_noise_that_together_costs_the_multiplier():
    rule = ClientDP(noise_multiplier=1.0, adaptive=AdaptiveClip(noise=1.0))
    total, state = result(rule, divisor=1.0, noise=Ones())
    raised = (1 - 1 / 4) ** -0.5
    assert total == pytest.approx([raised, raised], rel=1e-15)
    assert state.clip == math.exp(-0.2 * (1.0 + 0.5 - 0.5))


def test_the_counts_noise_is_a_twentieth_of_the_divisor_and_must_be_enough():
    assert AdaptiveClip().count_noise(40.0) == 2.0
    with pytest.raises(ConfigError, match="the count alone costs more"):
        AdaptiveClip().raised(1.0, 10.0)


def test_sum_and_count_draw_from_different_names():
    noise = SeededNoise(3)
    assert noise.normal(1, SUM, 0) != noise.normal(1, COUNT, 0)


# ------------------------------------------------------------ trees


def test_a_prefix_is_covered_by_one_node_for_each_binary_digit():
    assert list(cover(TreeStep(2, 13))) == [(2, 3, 0), (2, 2, 2), (2, 0, 12)]  # 8 + 4 + 1
    for before in range(1, 64):
        covered = [
            i for _, level, at in cover(TreeStep(0, before)) for i in range(at << level, (at + 1) << level)
        ]
        assert covered == list(range(before))


def test_increments_add_up_to_the_noise_of_the_prefix():
    def node(*name):
        return SeededNoise(5).normal(3, *name)

    total = np.zeros(3)
    for before in range(32):
        total += increment(TreeStep(1, before), node)
        prefix = np.sum([node(*each) for each in cover(TreeStep(1, before + 1))], axis=0)
        np.testing.assert_allclose(total, prefix, atol=1e-12)


def test_a_step_is_in_at_most_as_many_nodes_as_its_tree_is_high():
    """The sensitivity of a client that contributes once to a tree of 8 steps: one node per level, 4 levels."""
    for step in range(8):
        nodes = {
            (level, at)
            for before in range(1, 9)
            for _, level, at in cover(TreeStep(0, before))
            if at << level <= step < (at + 1) << level
        }
        assert len(nodes) <= 4 and len({level for level, _ in nodes}) == len(nodes)


def test_a_tree_restarts_after_its_steps_and_its_clients_may_come_again():
    private = PrivateSum(ClientDP(mechanism="tree", tree_steps=2), Mean(), 1.0, Silent())
    state = private.init(X, 4)
    seen = []
    for client in (0, 1, 0):
        _, state = private.result(private.add(contribution(client, 0.1, 0.1), X, X, state))
        seen.append(set(state.in_tree))
    assert seen == [{0}, set(), {0}]


# ------------------------------------------------------------ where noise comes from


def test_keyed_noise_is_standard_normal_and_named():
    noise = KeyedNoise(bytes(range(32)))
    draw = noise.normal(20_000, SUM, 4)
    assert draw.tolist() == KeyedNoise(bytes(range(32))).normal(20_000, SUM, 4).tolist()
    assert draw[:10].tolist() == noise.normal(10, SUM, 4).tolist()
    assert abs(draw.mean()) < 5 / math.sqrt(20_000) and abs(draw.var() - 1) < 5 * math.sqrt(2 / 20_000)
    others = [noise.normal(20_000, SUM, 5), KeyedNoise(bytes(32)).normal(20_000, SUM, 4)]
    assert all(abs(np.corrcoef(draw, other)[0, 1]) < 5 / math.sqrt(20_000) for other in others)


@pytest.mark.parametrize("key", [b"short", bytes(33), "x" * 32])
def test_a_key_has_256_bits_and_is_never_shown(key):
    with pytest.raises(ConfigError, match="32 bytes"):
        KeyedNoise(key)
    assert "\\x00" not in repr(KeyedNoise(bytes(32)))
