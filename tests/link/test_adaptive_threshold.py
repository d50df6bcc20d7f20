"""Thresholds that clients adapt: the share of skipped uploads is the one asked for, and nothing is lost."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedpace import algorithms
from fedpace.check import check_uplink
from fedpace.errors import ConfigError
from fedpace.link import (
    Accumulate,
    AdaptiveThreshold,
    Context,
    Dense,
    EntropyCoded,
    ErrorFeedback,
    Octaves,
    Plain,
    TopK,
)
from fedpace.link.uplinks.adaptive_threshold import HIGHEST, LOWEST, Adapted
from fedpace.link.wire import frame as wire
from fedpace.link.wire.frame import Kind

CODECS = [TopK(0.125), TopK(0.5), Octaves(0.25), EntropyCoded(1.59, dither=False), Dense("fp16")]


def adaptive(skip: float, codec=None, *, gamma: float = 0.2, max_staleness: int | None = 10):
    link = ErrorFeedback(codec or EntropyCoded(1.59))
    return AdaptiveThreshold(skip, Accumulate(1.2, link, max_staleness), gamma)


def iid(rounds: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rounds, 200))


def sent(link, updates) -> tuple[list[np.ndarray], list[bool], list]:
    """The values used, whether each was skipped, and the sender's states."""
    sender = receiver = link.init(updates.shape[1], updates.dtype)
    used, skipped, states = [], [], [sender]
    for t, v in enumerate(updates):
        frame, sender = link.send(v, sender, Context(t), np.random.default_rng(t))
        value, receiver = link.receive(frame, receiver, v.size)
        used.append(value)
        skipped.append(wire.parse(frame).kind is Kind.SKIP)
        states.append(sender)
    return used, skipped, states


@pytest.mark.parametrize("codec", CODECS, ids=str)
@pytest.mark.parametrize("skip", [0.1, 0.2, 0.4])
def test_the_share_of_skipped_uploads_tends_to_the_one_asked_for(codec, skip):
    """log tau_n = log tau_0 + gamma (n skip - skips) and tau is bounded, so the share is off by O(1/n)."""
    updates = iid(400)
    _, skipped, states = sent(adaptive(skip, codec), updates)
    decisions = len(updates) - 1  # all but the first
    assert all(LOWEST < state.tau < HIGHEST for state in states)
    drift = math.log(1.2 / states[-1].tau) / 0.2
    assert sum(skipped) == pytest.approx(decisions * skip + drift, abs=1e-9)
    assert abs(sum(skipped) / decisions - skip) < math.log(HIGHEST / LOWEST) / 0.2 / decisions


@pytest.mark.parametrize("codec", CODECS, ids=str)
def test_what_is_used_and_what_is_owed_add_up_to_what_was_given(codec):
    updates = iid(60)
    used, skipped, states = sent(adaptive(0.3, codec), updates)
    assert 2 < sum(skipped) < 58
    np.testing.assert_allclose(np.sum(used, axis=0) + states[-1].link.e, updates.sum(0), atol=1e-11)


def test_with_a_gain_of_nothing_it_is_accumulate_bit_for_bit():
    """exp(1e-300) = 1: the threshold stays, and frames and debts are those of the fixed one."""
    updates, adapting = iid(40), adaptive(0.3, gamma=1e-300)
    used, skipped, states = sent(adapting, updates)
    fixed_used, fixed_skipped, fixed = sent(adapting.link, updates)
    assert skipped == fixed_skipped and any(skipped)
    assert {state.tau for state in states} == {1.2}
    for state, debt in zip(states, fixed, strict=True):
        assert np.array_equal(state.link.e, debt.e) and state.link.sent_round == debt.sent_round
    assert all(np.array_equal(ours, theirs) for ours, theirs in zip(used, fixed_used, strict=True))


def test_one_decision_after_another():
    """Whole vectors, equal updates: after a value was sent v is owed and skipped; after a skip 2 v, and sent."""
    _, skipped, states = sent(adaptive(0.25, Dense()), np.ones((4, 2)))
    assert skipped == [False, True, False, True]
    down, up = math.exp(0.2 * (0.25 - 1)), math.exp(0.2 * 0.25)
    expected = [1.2, 1.2, 1.2 * down, 1.2 * down * up, 1.2 * down * up * down]
    assert [state.tau for state in states] == pytest.approx(expected, rel=1e-15)


def test_an_upload_that_is_sent_in_any_case_is_no_decision():
    """v is owed, then nothing: both are skipped. The update after these is overdue and leaves tau as it was."""
    updates = np.array([[1.0], [-1.0], [1.0], [-1.0]])
    _, skipped, states = sent(adaptive(0.25, Dense(), max_staleness=2), updates)
    assert skipped == [False, True, True, False]
    assert states[1].tau == states[0].tau and states[4].tau == states[3].tau


def test_the_threshold_stays_within_its_bounds():
    """A client with nothing to send always skips; one that owes much more than its update never does."""
    _, skipped, states = sent(adaptive(0.5, Dense()), np.zeros((12, 3)))
    assert skipped == [False] + [True] * 10 + [False] and min(state.tau for state in states) == LOWEST
    _, skipped, states = sent(adaptive(0.5, TopK(0.01)), iid(40) + 3)
    assert not any(skipped) and states[-1].tau == HIGHEST


def test_two_way_adapts_on_demand_only():
    plain, fixed = algorithms.two_way().up, algorithms.two_way(tau=1.3).up
    assert isinstance(plain, Plain) and isinstance(fixed, Accumulate)
    for off in (None, 0, 0.0):
        assert algorithms.two_way(skip=off).up == plain
        assert algorithms.two_way(skip=off, tau=1.3).up == fixed
    assert algorithms.two_way(skip=0.2, tau=1.3).up == AdaptiveThreshold(0.2, fixed)
    assert algorithms.two_way(skip=0.2).up.link.tau == 1.2
    with pytest.raises(ConfigError, match='skip must be zero with memory="ef21"'):
        algorithms.two_way(skip=0.2, memory="ef21")
    with pytest.raises(ConfigError, match="newest must be 1"):
        algorithms.two_way(skip=0.2, newest=0.5)


def test_promises_and_refusals():
    check_uplink(adaptive(0.3, Octaves(0.25)))
    assert adaptive(0.3).resync(Adapted(1.4, adaptive(0.3).link.init(2, np.dtype(float)))).tau == 1.4
    for bad in (-0.1, 0.0, 0.6, math.nan):
        with pytest.raises(ConfigError, match=r"AdaptiveThreshold.skip must be in \(0, 0.5\]"):
            adaptive(bad)
    with pytest.raises(ConfigError, match="AdaptiveThreshold.gamma"):
        adaptive(0.3, gamma=0.0)
    with pytest.raises(ConfigError, match="AdaptiveThreshold.link must be Accumulate"):
        AdaptiveThreshold(0.3, ErrorFeedback(TopK(0.5)))
    with pytest.raises(ConfigError, match=r"AdaptiveThreshold.link.tau must be in \[0.5, 2\]"):
        AdaptiveThreshold(0.3, Accumulate(3.0, ErrorFeedback(TopK(0.5))))
