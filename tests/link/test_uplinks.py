"""Links upwards: traces of the memories, what is held, and what happens when messages are lost."""

import numpy as np
import pytest

from fedpace.check import check_uplink
from fedpace.errors import ConfigError, FrameError
from fedpace.link import (
    EF21,
    Context,
    Dense,
    ErrorFeedback,
    Full,
    Lazy,
    NonFiniteError,
    Phantom,
    Plain,
    Quantize,
    RandK,
    ResyncError,
    ScaledSign,
    TopK,
    as_uplink,
    describe,
)
from fedpace.link.wire import frame as wire
from fedpace.link.wire.frame import Kind

RNG = np.random.default_rng(0)
FLOAT64 = np.dtype(np.float64)
UPDATES = [
    np.array(v)
    for v in ((1, 0.5, -0.25, 0), (0.5, 0.5, -0.25, 0.1), (0, 0.5, -0.25, 0.2), (0.2, -0.1, -0.25, 0.3))
]
TOTAL = (1.7, 1.4, -1, 0.6)


def start(link, size):
    return link.init(size, FLOAT64), link.init(size, FLOAT64)


def play(link, updates, n=1):
    """What the server uses, the frames, and both states after every round."""
    sender, receiver = start(link, np.size(updates[0]))
    for t, v in enumerate(updates, 1):
        v = np.atleast_1d(np.asarray(v, float))
        frame, sender = link.send(v, sender, Context(t, clients_per_step=n), RNG)
        used, receiver = link.receive(frame, receiver, v.size)
        yield used, frame, sender, receiver


def used_by(link, updates):
    return np.array([used for used, *_ in play(link, updates)]).squeeze()


def skipped(link, updates):
    return [int(describe(frame, 1).skipped) for _, frame, *_ in play(link, updates)]


# ---------------------------------------------------------------- error feedback


def test_error_feedback_with_top_1():
    """O6."""
    rounds = list(play(ErrorFeedback(TopK(1 / 4)), UPDATES))
    sent = [(1, 0, 0, 0), (0, 1, 0, 0), (0, 0, -0.75, 0), (0.7, 0, 0, 0)]
    memory = [(0, 0.5, -0.25, 0), (0.5, 0, -0.5, 0.1), (0.5, 0.5, 0, 0.3), (0, 0.4, -0.25, 0.6)]
    for (used, _, sender, _), c, e in zip(rounds, sent, memory, strict=True):
        np.testing.assert_allclose(used, c, atol=1e-15)
        np.testing.assert_allclose(sender.e, e, atol=1e-15)


def test_error_feedback_with_signs():
    """O7."""
    rounds = list(play(ErrorFeedback(ScaledSign()), UPDATES))
    sent = np.array([0.4375, 0.50625, 0.41875, 0.275])[:, None] * [
        (1, 1, -1, 1),
        (1, 1, -1, -1),
        (1, 1, 1, 1),
        (1, 1, -1, 1),
    ]
    np.testing.assert_allclose([used for used, *_ in rounds], sent, atol=1e-15)
    e = rounds[-1][2].e
    np.testing.assert_allclose(e, (0.0625, -0.2375, -0.2, -0.025), atol=1e-15)
    np.testing.assert_allclose(sent.sum(0) + e, TOTAL, atol=1e-15)


def test_the_memory_keeps_what_rounding_lost():
    """O8: 1/3 sent as fp16 leaves 8.138020833e-05 behind, not nothing."""
    (_, _, sender, _), *_ = play(ErrorFeedback(Dense("fp16")), [np.array([1 / 3])])
    assert sender.e[0] == 1 / 3 - 0.333251953125 == pytest.approx(8.138020833e-05, abs=1e-14)


def test_the_memory_changes_only_when_the_frame_is_acknowledged():
    link = ErrorFeedback(TopK(1 / 4))
    sender, _ = start(link, 4)
    lost, _ = link.send(UPDATES[0], sender, Context(1), RNG)
    again, after = link.send(UPDATES[0], sender, Context(1), RNG)
    assert lost == again and sender.e.size == 0 and after.e.size == 4
    assert link.resync(after) is after


def test_non_finite_updates_are_refused_before_anything_is_remembered():
    for link in (ErrorFeedback(TopK(1 / 4)), ErrorFeedback(Dense()), EF21(ScaledSign()), Lazy("nla", 0.5)):
        sender, _ = start(link, 4)
        with pytest.raises(NonFiniteError):
            link.send(np.array([1, np.nan, 0, 0]), sender, Context(1), RNG)


@pytest.mark.parametrize("link", [ErrorFeedback(TopK(0.5)), EF21(Dense()), EF21(ScaledSign())])
def test_a_memory_that_runs_over_is_refused_and_not_warned_about(link):
    huge = np.array([1.0, -1.0]) * np.finfo(float).max
    sender, _ = start(link, 2)
    with pytest.raises(NonFiniteError):
        for t, v in enumerate((huge, -huge, huge, huge)):
            _, sender = link.send(v, sender, Context(t), RNG)


def test_a_change_beyond_the_range_of_what_is_held_is_refused():
    """A float64 frame on a link that holds float32."""
    link = EF21(Dense())
    frame, _ = link.send(np.array([1e300]), link.init(1, FLOAT64), Context(0), RNG)
    with pytest.raises(NonFiniteError):
        link.receive(frame, link.init(1, np.dtype(np.float32)), 1)


# ---------------------------------------------------------------- EF21


def test_ef21_moves_the_servers_estimate_towards_the_update():
    """g <- g + C(v - g): with top-1 of a constant update one coordinate arrives per round, exactly."""
    v = np.array([4.0, -3, 2, 1])
    estimates = used_by(EF21(TopK(1 / 4)), [v] * 5)
    np.testing.assert_array_equal(
        estimates, [(4, 0, 0, 0), (4, -3, 0, 0), (4, -3, 2, 0), (4, -3, 2, 1), (4, -3, 2, 1)]
    )


def test_ef21_with_the_identity_is_the_plain_link_up_to_rounding():
    np.testing.assert_allclose(used_by(EF21(Dense()), UPDATES), UPDATES, atol=1e-15)


def test_ef21_keeps_one_estimate_on_both_ends():
    for used, frame, sender, receiver in play(EF21(ScaledSign()), UPDATES):
        assert sender.version == receiver.version == wire.parse(frame).ref + 1
        assert sender.g.tobytes() == receiver.g.tobytes() == used.tobytes()
        assert wire.parse(frame).flags & wire.DIFF and not used.flags.writeable


def test_ef21_asks_for_a_fresh_start_when_versions_differ():
    link = EF21(TopK(1 / 4))
    *_, (_, _, sender, receiver) = play(link, UPDATES)
    forgetful = link.init(4, FLOAT64)
    frame, _ = link.send(UPDATES[0], sender, Context(5), RNG)
    with pytest.raises(ResyncError, match="version 4 came; version 0 is held"):
        link.receive(frame, forgetful, 4)
    frame, after = link.send(UPDATES[0], link.resync(sender), Context(5), RNG)
    for held in (forgetful, receiver):
        used, heard = link.receive(frame, held, 4)
        np.testing.assert_array_equal(used, after.g)
        assert heard.version == after.version == 1


# ---------------------------------------------------------------- NLA


O9 = [1, 1.1, 1.2, 1.3, 0.5]


@pytest.mark.parametrize(
    "link, used, fired",
    [
        (Lazy("nla", 0.25, link=ErrorFeedback(Dense())), (1, 1, 1.3, 1.3, 0.5), (0, 1, 0, 1, 0)),
        (Lazy("nla", 0.25, link=ErrorFeedback(Dense(), "fresh")), (1, 1, 1, 1.3, 0.5), (0, 1, 1, 0, 0)),
        (Lazy("nla", 0.25), (1, 1, 1, 1.3, 0.5), (0, 1, 1, 0, 0)),
        (
            Lazy("nla", 0.25, link=ErrorFeedback(Dense()), reference="raw"),
            (1, 1, 1.1, 1.3, 0.7),
            (0, 1, 1, 1, 0),
        ),
    ],
)
def test_what_nla_uses_under_each_reading_of_the_memory(link, used, fired):
    """O9."""
    np.testing.assert_allclose(used_by(link, O9), used, atol=1e-15)
    assert skipped(link, O9) == list(fired)


def test_only_the_judged_memory_loses_nothing():
    """O9: judged 5.1 = sum of updates and e = 0; fresh 4.8, a deficit of .3."""
    *_, (_, _, sender, _) = play(Lazy("nla", 0.25, link=ErrorFeedback(Dense())), O9)
    np.testing.assert_allclose(sender.memory, 0, atol=1e-15)
    assert used_by(Lazy("nla", 0.25, link=ErrorFeedback(Dense())), O9).sum() == pytest.approx(5.1)
    assert used_by(Lazy("nla", 0.25, link=ErrorFeedback(Dense(), "fresh")), O9).sum() == pytest.approx(4.8)


def test_a_skip_names_the_version_it_stands_for():
    rounds = list(play(Lazy("nla", 0.25), [1, 1, 5, 5, 5]))
    headers = [wire.parse(frame) for _, frame, *_ in rounds]
    assert [(h.kind, h.ref, h.round) for h in headers] == [
        (Kind.DENSE, 0, 1),
        (Kind.SKIP, 1, 2),
        (Kind.DENSE, 1, 3),
        (Kind.SKIP, 2, 4),
        (Kind.SKIP, 2, 5),
    ]
    assert [len(frame) for _, frame, *_ in rounds] == [28, 20, 28, 20, 20]


def test_a_value_is_reused_for_so_many_rounds_and_then_sent_again():
    assert skipped(Lazy("nla", 0.5, max_staleness=2), [1] * 7) == [0, 1, 1, 0, 1, 1, 0]
    assert skipped(Lazy("nla", 0.5, max_staleness=None), [1] * 7) == [0, 1, 1, 1, 1, 1, 1]
    assert skipped(Lazy("nla", 0.5, 2, EF21(Dense())), [1] * 5) == [0, 1, 1, 0, 1]


def test_a_long_absence_counts_as_staleness():
    link = Lazy("nla", 0.5, max_staleness=3)
    sender, _ = start(link, 1)
    _, sender = link.send(np.ones(1), sender, Context(1), RNG)
    assert describe(link.send(np.ones(1), sender, Context(4), RNG)[0], 1).skipped
    assert not describe(link.send(np.ones(1), sender, Context(5), RNG)[0], 1).skipped


def test_the_proofs_reading_never_fires_after_an_absence():
    link = Lazy("nla", 0.5, reference="absent_is_zero")
    sender, _ = start(link, 1)
    _, sender = link.send(np.ones(1), sender, Context(1), RNG)
    frame, at_two = link.send(np.ones(1), sender, Context(2), RNG)
    assert describe(frame, 1).skipped
    assert describe(link.send(np.ones(1), at_two, Context(3), RNG)[0], 1).skipped
    assert not describe(link.send(np.ones(1), at_two, Context(4), RNG)[0], 1).skipped


def test_the_papers_threshold_divides_by_the_updates_per_step():
    updates = [np.array([1.0]), np.array([1.125])]
    kinds = {
        n: [describe(frame, 1).skipped for _, frame, *_ in play(Lazy("nla", 0.25, over_n=True), updates, n)]
        for n in (1, 2, 3)
    }
    assert kinds == {1: [False, True], 2: [False, True], 3: [False, False]}


def test_nothing_is_reused_before_anything_was_sent():
    """y = 0 fires for x = 0 only; the zero is then sent rather than skipped, with the same effect."""
    assert skipped(Lazy("nla", 0.5), [0, 0, 0]) == [0, 1, 1]


def test_lazy_ef21_is_judged_before_compression():
    """||v - g|| <= tau ||g||: top-1 of (4, 3) leaves 3/4, then nothing."""
    v = np.array([4.0, 3.0])
    assert skipped(Lazy("nla", 0.8, link=EF21(TopK(1 / 2))), [v] * 3) == [0, 1, 1]
    assert skipped(Lazy("nla", 0.7, link=EF21(TopK(1 / 2))), [v] * 4) == [0, 0, 1, 1]


# ---------------------------------------------------------------- AA


@pytest.mark.parametrize(
    "memory, reference, used",
    [
        ("judged", "held", (1, 2, 0, 1, 2, 0)),
        ("judged", "judged", (1, 2, 0, 1, 2, 0)),
        ("fresh", "held", (1, 2, 2, 2, 2, 2)),
        ("fresh", "judged", (1, 2, 1, 2, 1, 2)),
    ],
)
def test_what_aa_uses_under_each_reading(memory, reference, used):
    """O10: with the judged memory the acceleration cancels itself."""
    link = Lazy("aa", 0.25, link=ErrorFeedback(Dense(), memory), reference=reference)
    np.testing.assert_array_equal(used_by(link, [1] * 6), used)


def test_aa_always_sends_its_value():
    for used, frame, sender, receiver in play(Lazy("aa", 0.25), [1, 1, 3]):
        assert wire.parse(frame).kind is Kind.DENSE and len(frame) == 28
        assert sender.held == receiver.held == frame and used.size == 1
    flags = [
        bool(wire.parse(frame).flags & wire.ADD_PREV) for _, frame, *_ in play(Lazy("aa", 0.25), [1, 1, 3])
    ]
    assert flags == [False, True, False]


def test_judged_nla_and_aa_of_the_worked_example():
    """O5: y = (3, 4), x = (3, 4.5), tau = .1."""
    updates = [np.array([3.0, 4]), np.array([3, 4.5])]
    np.testing.assert_array_equal(used_by(Lazy("nla", 0.1), updates)[1], (3, 4))
    np.testing.assert_array_equal(used_by(Lazy("aa", 0.1), updates)[1], (6, 8.5))


# ---------------------------------------------------------------- LAG


def test_lag_skips_what_moves_less_than_the_model_did():
    link = Lazy("lag", 1.0, past_steps=2)
    assert link.window == 2 and Lazy("nla", 0.5).window == 0
    sender, receiver = start(link, 1)
    frame, sender = link.send(np.ones(1), sender, Context(0), RNG)
    _, receiver = link.receive(frame, receiver, 1)
    for norms, skips in (((0.01,), False), ((0.01, 0.01), True), ((0.0199,), False)):
        frame, _ = link.send(np.full(1, 1.1 - 1e-12), sender, Context(1, step_norms=norms), RNG)
        assert describe(frame, 1).skipped is skips
    skip = wire.build(Kind.SKIP, round=1, ref=1)
    assert link.receive(skip, receiver, 1)[0] == [1.0]


# ---------------------------------------------------------------- agreement and loss


@pytest.mark.parametrize("rule", ["nla", "aa"])
def test_a_message_on_a_value_that_is_not_held_asks_for_resync(rule):
    link = Lazy(rule, 0.5, link=ErrorFeedback(ScaledSign()))
    *_, (_, _, sender, receiver) = play(link, [np.ones(4)] * 2)
    frame, _ = link.send(np.ones(4), sender, Context(3), RNG)
    if rule == "aa":
        frame = wire.stamp(frame, round=3, ref=2, flags=wire.ADD_PREV)
    forgetful = link.init(4, FLOAT64)
    with pytest.raises(ResyncError):
        link.receive(frame, forgetful, 4)
    restarted = link.resync(sender)
    np.testing.assert_array_equal(restarted.memory, sender.memory)
    full, after = link.send(np.ones(4), restarted, Context(3), RNG)
    for held in (forgetful, receiver):
        _, heard = link.receive(full, held, 4)
        assert (heard.version, heard.held) == (after.version, after.held) == (1, full)


def test_a_lost_acknowledgement_is_noticed():
    """The server is one value ahead of what the client believes: its next skip does not pass."""
    link = Lazy("nla", 0.5)
    *_, (_, _, sender, receiver) = play(link, [1])
    frame, _ = link.send(np.array([5.0]), sender, Context(2), RNG)
    _, ahead = link.receive(frame, receiver, 1)
    skip, _ = link.send(np.array([1.0]), sender, Context(3), RNG)
    assert describe(skip, 1).skipped
    with pytest.raises(ResyncError, match="SKIP builds on version 1; version 2 is held"):
        link.receive(skip, ahead, 1)


def test_phantoms_live_in_simulation_only():
    """Over a real link the literal reading's second skip in a row refers to nothing that was sent."""
    link = Lazy("nla", 0.25, link=ErrorFeedback(Dense()), reference="raw")
    rounds = list(play(link, O9))
    assert [isinstance(frame, Phantom) for _, frame, *_ in rounds] == [False, False, True, True, False]
    receiver = link.init(1, FLOAT64)
    for _, frame, *_ in rounds[:2]:
        _, receiver = link.receive(bytes(frame), receiver, 1)
    with pytest.raises(ResyncError):
        link.receive(bytes(rounds[2][1]), receiver, 1)
    with pytest.raises(ResyncError):
        Lazy("nla", 0.25).receive(rounds[2][1], receiver, 1)


# ---------------------------------------------------------------- what is refused


SOME = np.array([1.0, -2, 3, -4])


@pytest.mark.parametrize(
    "link, foreign",
    [
        (Plain(), wire.build(Kind.SKIP)),
        (Plain(), wire.stamp(Dense().encode(SOME, RNG), round=1, flags=wire.DIFF)),
        (Plain(TopK(0.5)), Dense().encode(SOME, RNG)),
        (ErrorFeedback(TopK(0.5)), wire.stamp(TopK(0.5).encode(SOME, RNG), round=1, flags=wire.ADD_PREV)),
        (EF21(TopK(0.5)), TopK(0.5).encode(SOME, RNG)),
        (EF21(TopK(0.5)), wire.build(Kind.SKIP)),
        (Lazy("aa", 0.5), wire.build(Kind.SKIP)),
        (Lazy("nla", 0.5), wire.stamp(Dense().encode(SOME, RNG), round=1, flags=wire.ADD_PREV)),
        (Lazy("aa", 0.5), wire.stamp(Dense().encode(SOME, RNG), round=1, flags=wire.DIFF)),
        (Lazy("nla", 0.5, link=EF21(Dense())), Dense().encode(SOME, RNG)),
    ],
)
def test_frames_of_other_links_are_refused(link, foreign):
    with pytest.raises(FrameError):
        link.receive(foreign, link.init(4, FLOAT64), 4)


def test_a_sum_beyond_the_largest_number_is_refused():
    huge = np.full(1, np.finfo(float).max)
    link = Lazy("aa", 0.25)
    state = link.init(1, FLOAT64)
    frame = Dense().encode(huge, RNG)
    _, state = link.receive(frame, state, 1)
    with pytest.raises(NonFiniteError):
        link.receive(wire.stamp(frame, round=1, ref=1, flags=wire.ADD_PREV), state, 1)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Lazy("nla", 1.0, None), "Lazy.tau must be < 1 for nla without max_staleness"),
        (lambda: Lazy("nla", -0.1), "Lazy.tau must be in [0, 1e+100]; got -0.1"),
        (lambda: Lazy("nla", float("nan")), "Lazy.tau must be in [0, 1e+100]; got nan"),
        (lambda: Lazy("ala", 0.1), "Lazy.rule must be nla or aa or lag; got 'ala'"),
        (lambda: Lazy("nla", 0.1, 0), "Lazy.max_staleness must be a whole number >= 1; got 0"),
        (lambda: Lazy("nla", 0.1, link=Full()), "Lazy.link must be Plain, ErrorFeedback or EF21"),
        (lambda: Lazy("aa", 0.1, link=EF21(Dense())), "Lazy.rule must be nla or lag around EF21"),
        (lambda: Lazy("aa", 0.1, reference="raw"), "Lazy.reference must be held or judged; got 'raw'"),
        (
            lambda: Lazy("nla", 0.1, link=EF21(Dense()), reference="raw"),
            "Lazy.reference must be held; got 'raw'",
        ),
        (lambda: Lazy("lag", 0.1, past_steps=0), "Lazy.past_steps must be a whole number >= 1; got 0"),
        (lambda: ErrorFeedback(Dense(), "none"), "ErrorFeedback.memory must be judged or fresh; got 'none'"),
        (lambda: ErrorFeedback(RandK(0.5)), "ErrorFeedback.codec must contract; got RandK"),
        (lambda: EF21(Quantize(4)), "EF21.codec must contract; got Quantize"),
        (lambda: as_uplink(Full()), "an uplink must be a codec or an Uplink; got Full"),
    ],
)
def test_bad_links_fail_when_they_are_built(make, message):
    with pytest.raises(ConfigError) as caught:
        make()
    assert str(caught.value).startswith(message)


def test_a_codec_alone_is_a_plain_link():
    assert as_uplink(TopK(0.5)) == Plain(TopK(0.5))
    assert as_uplink(None) == Plain(Dense())
    assert as_uplink(Lazy("nla", 0.5)) == Lazy("nla", 0.5)


LINKS = [
    Plain(),
    Plain(Quantize(4)),
    ErrorFeedback(TopK(0.1)),
    ErrorFeedback(RandK(0.3, unbiased=False)),
    EF21(TopK(0.2)),
    EF21(Quantize(4, stochastic=False)),
    Lazy("nla", 0.5),
    Lazy("aa", 0.5),
    Lazy("lag", 1.0),
    Lazy("aa", 0.5, link=ErrorFeedback(ScaledSign(), "fresh"), reference="judged"),
    Lazy("nla", 0.9, link=ErrorFeedback(ScaledSign())),
    Lazy("nla", 0.5, link=EF21(TopK(0.3))),
    Lazy("lag", 1.0, link=EF21(ScaledSign())),
]


@pytest.mark.parametrize("link", LINKS, ids=str)
def test_every_uplink_keeps_its_promises(link):
    check_uplink(link)
