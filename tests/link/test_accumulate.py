"""Self-triggered uploads: what is skipped is kept, and nothing is used twice."""

from __future__ import annotations

import numpy as np
import pytest

from fedpace.check import check_uplink
from fedpace.errors import ConfigError, FrameError
from fedpace.link import EF21, Accumulate, Context, Dense, ErrorFeedback, Octaves, TopK
from fedpace.link.wire import frame as wire
from fedpace.link.wire.frame import Kind

RNG = np.random.default_rng(0)


def sent(link: Accumulate, updates: list[list[float]]) -> tuple[list[list[float]], list[bool], np.ndarray]:
    """The values used, whether each was skipped, and what is owed in the end."""
    size = len(updates[0])
    sender, receiver = (link.init(size, np.dtype(np.float64)) for _ in range(2))
    used, skipped = [], []
    for t, v in enumerate(updates):
        frame, sender = link.send(np.array(v), sender, Context(t), RNG)
        value, receiver = link.receive(frame, receiver, size)
        used.append(value.tolist())
        skipped.append(wire.parse(frame).kind is Kind.SKIP)
    return used, skipped, sender.e


def test_a_constant_update_goes_out_every_other_time():
    """Whole vectors, tau = 1.5: the first is sent; then v is owed, 2 v, v, 2 v, ...: every other carries both."""
    used, skipped, owed = sent(Accumulate(1.5, ErrorFeedback(Dense())), [[2.0, -1.0]] * 6)
    assert used == [[2, -1], [0, 0], [4, -2], [0, 0], [4, -2], [0, 0]]
    assert skipped == [False, True, False, True, False, True] and owed.tolist() == [2, -1]


def test_a_client_whose_codec_left_much_behind_does_not_wait():
    """Top-1 of (3, 3), then (3, 3) + (0, 3) is owed: ||p||^2 = 45 against 18 tau^2, so it waits from tau = 1.59 on."""
    updates = [[3.0, 3.0]] * 2
    for tau, skips in ((1.0, [False, False]), (1.58, [False, False]), (1.59, [False, True])):
        used, skipped, owed = sent(Accumulate(tau, ErrorFeedback(TopK(0.5))), updates)
        assert skipped == skips
        assert np.array_equal(np.sum(used, axis=0) + owed, [6, 6])


def test_updates_that_cancel_are_never_sent():
    used, skipped, owed = sent(Accumulate(1.0, ErrorFeedback(Dense())), [[1.0], [-1.0], [1.0], [-1.0]])
    assert skipped == [False, True, True, True] and owed.tolist() == [-1] and np.sum(used) == 1


@pytest.mark.parametrize("codec", [TopK(0.25), Octaves(0.25), Dense("fp16")], ids=str)
def test_what_is_used_and_what_is_owed_add_up_to_what_was_given(codec):
    updates = np.random.default_rng(5).normal(size=(30, 16)) + 0.5
    used, skipped, owed = sent(Accumulate(1.3, ErrorFeedback(codec)), updates.tolist())
    np.testing.assert_allclose(np.sum(used, axis=0) + owed, updates.sum(0), atol=1e-12)
    assert 2 < sum(skipped) < 28


def test_a_client_waits_for_so_many_rounds_and_no_longer():
    _, skipped, _ = sent(Accumulate(1e6, ErrorFeedback(Dense()), 2), [[1.0]] * 7)
    assert skipped == [False, True, True, False, True, True, False]


def test_promises_and_refusals():
    check_uplink(Accumulate(1.3, ErrorFeedback(Octaves(0.25))))
    check_uplink(Accumulate(0.0, ErrorFeedback(TopK(0.25))))
    with pytest.raises(ConfigError, match="Accumulate.link must be ErrorFeedback"):
        Accumulate(1.0, EF21(TopK(0.5)))
    with pytest.raises(ConfigError, match="Accumulate.tau"):
        Accumulate(-1.0, ErrorFeedback(TopK(0.5)))
    link = Accumulate(1.0, ErrorFeedback(Dense()))
    flagged = wire.stamp(Dense().encode(np.ones(2), RNG), round=0, flags=wire.DIFF)
    with pytest.raises(FrameError, match="mean nothing"):
        link.receive(flagged, link.init(2, np.dtype(np.float64)), 2)
