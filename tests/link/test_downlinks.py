"""Links downwards: what clients hold, how those who were away catch up, and the paper's own downlink."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from fedpace import algorithms
from fedpace.check import check_downlink
from fedpace.errors import ConfigError, FrameError
from fedpace.link import (
    CompressedModel,
    Dense,
    Difference,
    Full,
    Lazy,
    LazyModel,
    Phantom,
    Quantize,
    RandK,
    ResyncError,
    ScaledSign,
    TopK,
    as_downlink,
    describe,
)
from fedpace.link.downlinks.difference import PerClientState
from fedpace.link.downlinks.replica import Replica, number
from fedpace.link.downlinks.shared_reference import SharedState
from fedpace.link.wire import frame as wire
from fedpace.link.wire.frame import Kind

RNG = np.random.default_rng(0)
THETA = np.array([4.0, -3, 2, 1])


class Wire:
    """A server and its clients; every frame goes into the log."""

    def __init__(self, link, x, clients=3):
        self.link, self.version, self.log = link, -1, []
        self.state, self.held = link.init(x, clients), {}
        self.publish(x)

    def publish(self, x):
        self.version += 1
        self.x = x
        self.state = self.link.publish(x, self.version, self.state, RNG)

    def retrieve(self, client):
        frame, self.state = self.link.send(client, self.x, self.version, self.state, RNG)
        self.log.append(frame)
        model, self.held[client] = self.link.receive(frame, self.held.get(client), self.x.size)
        return model

    def kinds(self):
        return [wire.parse(frame).kind.name for frame in self.log]


def received(link, x, rounds, first=None):
    """What one client starts from while the model is x, after a first contact at `first`."""
    server = Wire(link, x if first is None else first)
    if first is not None:
        server.retrieve(1)
    models = []
    for _ in range(rounds):
        server.publish(x)
        models.append(server.retrieve(1))
    return np.array(models), server


# ---------------------------------------------------------------- full


def test_the_whole_model_is_one_frame_for_everybody():
    server = Wire(Full(), THETA)
    for client in (0, 5):
        np.testing.assert_array_equal(server.retrieve(client), THETA)
    assert server.log[0] is server.log[1]
    assert server.held == {0: None, 5: None} and Full().shared
    assert server.link.forget(0, server.state) is server.state


def test_a_past_version_is_encoded_when_it_is_asked_for():
    server = Wire(Full(), THETA)
    server.publish(THETA + 1)
    frame, _ = server.link.send(0, THETA, 0, server.state, RNG)
    np.testing.assert_array_equal(Full().receive(frame, None, 4)[0], THETA)
    assert wire.parse(frame).round == 0


# ---------------------------------------------------------------- compressed model


def test_compressing_a_frozen_model_never_settles():
    """O17: theta = (1, 1, 1, 1), top-1: each coordinate comes every fourth time with four times its size."""
    models, _ = received(CompressedModel(TopK(1 / 4), first="zero"), np.ones(4), 12)
    size = np.minimum(np.arange(1, 13), 4)
    expected = size[:, None] * np.eye(4)[np.arange(12) % 4]
    np.testing.assert_array_equal(models, expected)
    relative = np.square(models - 1).sum(1) / 4
    np.testing.assert_allclose(relative[:6], (0.75, 1, 1.75, 3, 3, 3))


def test_the_error_memory_of_a_compressed_model_outgrows_the_model():
    """O17: ||E|| / ||theta|| -> 1.8708286934."""
    _, server = received(CompressedModel(TopK(1 / 4), first="zero"), np.ones(4), 40)
    ratio = np.linalg.norm(server.state.clients[1].held.memory) / 2
    assert ratio == pytest.approx(1.8708286934, abs=1e-10)


def test_a_compressed_model_under_aa_becomes_twice_the_model():
    """O18: identity, theta = 1, tau = .1: 1, 2, 0, 1, 2, 0."""
    models, _ = received(CompressedModel(Dense(), "aa", 0.1, first="zero"), np.ones(1), 6)
    np.testing.assert_array_equal(models[:, 0], (1, 2, 0, 1, 2, 0))


def test_a_compressed_model_starts_whole_unless_told_otherwise():
    server = Wire(CompressedModel(TopK(1 / 4)), THETA)
    np.testing.assert_array_equal(server.retrieve(2), THETA)
    server.publish(THETA)
    np.testing.assert_array_equal(server.retrieve(2), (4, 0, 0, 0))
    assert server.kinds() == ["DENSE", "SPARSE"]
    assert set(server.state.clients) == {2}, "only clients heard from are remembered"


def test_a_compressed_model_is_reused_under_nla():
    models, server = received(CompressedModel(Dense(), "nla", 0.3), np.full(2, 1.25), 2, first=np.ones(2))
    np.testing.assert_array_equal(models, [(1, 1), (1.5, 1.5)])
    assert server.kinds() == ["DENSE", "SKIP", "DENSE"]


def test_a_compressed_model_is_reused_for_max_staleness_rounds_at_most():
    """The model stands still; a client that comes later has as long from its own first contact on."""
    for bound, kinds in ((None, ["SKIP"] * 6), (2, ["SKIP", "SKIP", "DENSE"] * 2)):
        link = CompressedModel(Dense(), "nla", 0.3, max_staleness=bound)
        _, server = received(link, np.ones(2), 6, first=np.ones(2))
        assert server.kinds() == ["DENSE", *kinds]
        for _ in range(4):
            server.retrieve(5)
            server.publish(np.ones(2))
        assert server.kinds()[7:] == ["DENSE", *kinds[:3]]


def test_max_staleness_reaches_the_downlink_in_the_realisable_mode():
    """To the letter there is no bound; without a lazy downlink nothing is said of one, as in runs of version 0.1."""
    assert algorithms.fedbnlaca(tau_down=1.5, max_staleness=7).down.max_staleness == 7
    assert algorithms.fedbaca(tau_down=0.5).down.max_staleness == 10
    with pytest.warns(UserWarning, match="simulation only"):
        assert algorithms.fedbnlaca(tau_down=1.5, mode="literal").down.max_staleness is None
    assert "max_staleness" not in repr(algorithms.fedbnlaca().down)
    with pytest.raises(ConfigError, match="without max_staleness"):
        algorithms.fedbnlaca(tau_down=1.5, max_staleness=None)


# ---------------------------------------------------------------- difference


@pytest.mark.parametrize("reference", ["per_client", "shared"])
def test_a_frozen_model_is_reached_coordinate_by_coordinate(reference):
    """O19; with an extra error memory (4, -6, 0, 0) would follow (4, 0, 0, 0)."""
    models, server = received(Difference(TopK(1 / 4), reference=reference), THETA, 5, first=np.zeros(4))
    np.testing.assert_array_equal(models, [(4, 0, 0, 0), (4, -3, 0, 0), (4, -3, 2, 0), THETA, THETA])
    assert server.kinds() == ["DENSE"] + ["SET_SPARSE"] * 4 + ["SKIP"]


@given(
    arrays.arrays(np.float32, st.integers(2, 40), elements=st.floats(-100, 100, width=32)), st.floats(0.05, 1)
)
@settings(deadline=None, max_examples=40)
def test_a_frozen_model_is_exact_after_d_over_k_contacts_and_nearer_after_each(x, ratio):
    codec = TopK(ratio)
    k = codec.counts(x.size)[0]
    server = Wire(Difference(codec), np.zeros_like(x))
    server.retrieve(0)
    server.publish(x)
    gap = float(np.square(x.astype(float)).sum())
    for _ in range(math.ceil(x.size / k)):
        left = float(np.square(x.astype(float) - server.retrieve(0)).sum())
        assert left <= (1 - k / x.size) * gap * (1 + 1e-12)
        gap = left
    assert gap == 0


@pytest.mark.parametrize(
    "codec", [ScaledSign(), Quantize(4, stochastic=False), TopK(0.5, "fp16"), Dense("bf16")]
)
@pytest.mark.parametrize("reference", ["per_client", "shared"])
def test_codecs_that_round_add_differences_and_converge(codec, reference):
    link = Difference(codec, reference=reference)
    models, server = received(link, THETA / 3, 30, first=np.zeros(4))
    np.testing.assert_allclose(models[-1], THETA / 3, atol=1e-6)
    assert all(wire.parse(frame).flags & wire.DIFF for frame in server.log[1:3])


def test_a_codec_that_keeps_everything_is_the_full_downlink():
    server = Wire(Difference(TopK(1.0)), THETA)
    for shift in range(3):
        server.publish(THETA + shift)
        np.testing.assert_array_equal(server.retrieve(0), THETA + shift)


def test_what_would_be_longer_than_the_model_goes_out_whole():
    server = Wire(Difference(TopK(1.0)), THETA)
    server.retrieve(0)
    server.publish(THETA * 2)
    np.testing.assert_array_equal(server.retrieve(0), THETA * 2)
    assert server.kinds() == ["DENSE", "DENSE"]


def test_dense_sends_only_what_changed_where_that_is_shorter():
    x = np.arange(100.0)
    server = Wire(Difference(Dense()), x)
    server.retrieve(0)
    moved = x.copy()
    moved[7] = -1
    server.publish(moved)
    np.testing.assert_array_equal(server.retrieve(0), moved)
    assert server.kinds() == ["DENSE", "SET_SPARSE"] and len(server.log[1]) < 40


@pytest.mark.parametrize("reference", ["per_client", "shared"])
def test_small_moves_are_not_sent(reference):
    """||r|| <= tau ||h||: h is good enough."""
    server = Wire(Difference(TopK(0.5), tau=0.1, reference=reference), np.array([3.0, 4]))
    server.retrieve(0)
    server.publish(np.array([3, 4.5]))
    np.testing.assert_array_equal(server.retrieve(0), (3, 4))
    server.publish(np.array([3, 4.51]))
    np.testing.assert_array_equal(server.retrieve(0), (3, 4.51))
    assert server.kinds() == ["DENSE", "SKIP", "SET_SPARSE"]


def test_per_client_references_do_not_touch_each_other():
    server = Wire(Difference(TopK(1 / 4)), np.zeros(4))
    server.retrieve(0), server.retrieve(2)
    before = server.state.clients[2]
    server.publish(THETA)
    server.retrieve(0)
    assert server.state.clients[2] is before
    np.testing.assert_array_equal(server.retrieve(2), (4, 0, 0, 0))
    assert set(server.state.clients) == {0, 2}


@pytest.mark.parametrize("codec", [TopK(0.1), ScaledSign(), TopK(0.1, "fp16")])
def test_with_everybody_contacted_every_round_both_references_agree(codec):
    """Section 13: per_client == shared."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=50)
    one, all_ = Wire(Difference(codec), x), Wire(Difference(codec, reference="shared"), x)
    for _ in range(6):
        for server in (one, all_):
            models = [server.retrieve(client) for client in range(3)]
            assert all(model.tobytes() == models[0].tobytes() for model in models)
        assert one.held[0].model.tobytes() == all_.held[0].model.tobytes()
        x = x + rng.normal(size=50)
        one.publish(x), all_.publish(x)


def test_who_was_away_gets_the_union_of_what_changed():
    rng = np.random.default_rng(3)
    x = rng.normal(size=200)
    server = Wire(Difference(TopK(0.05), reference="shared"), x)
    for client in (0, 1):
        server.retrieve(client)
    for _ in range(4):
        x = x + rng.normal(size=200)
        server.publish(x)
        server.retrieve(0)
    np.testing.assert_array_equal(server.retrieve(1), server.state.model)
    np.testing.assert_array_equal(server.held[0].model, server.state.model)
    assert server.kinds()[-1] == "SET_SPARSE"
    counts = [int.from_bytes(frame[20:24], "little") for frame in server.log[2:]]
    assert counts[:-1] == [10] * 4 and 10 < counts[-1] <= 40
    assert wire.parse(server.log[-1]).ref == 1


def test_who_was_away_for_longer_than_the_ring_gets_the_whole_model():
    server = Wire(Difference(TopK(1 / 4), reference="shared", ring=2), np.zeros(4))
    server.retrieve(0)
    for shift in range(3):
        server.publish(THETA + shift)
    np.testing.assert_array_equal(server.retrieve(0), server.state.model)
    assert server.kinds() == ["DENSE", "DENSE"]


def test_added_changes_reach_only_those_one_change_behind():
    server = Wire(Difference(ScaledSign(), reference="shared"), np.zeros(4))
    for client in (0, 1):
        server.retrieve(client)
    server.publish(THETA)
    np.testing.assert_array_equal(server.retrieve(0), (2.5, -2.5, 2.5, 2.5))
    server.publish(THETA * 2)
    for client in (0, 1):
        np.testing.assert_array_equal(server.retrieve(client), server.state.model)
    assert server.kinds() == ["DENSE", "DENSE", "SIGN", "SIGN", "DENSE"]


def test_those_at_the_same_version_get_the_same_bytes():
    server = Wire(Difference(TopK(1 / 4), reference="shared"), np.zeros(4))
    for client in range(3):
        server.retrieve(client)
    server.publish(THETA)
    for client in range(3):
        server.retrieve(client)
    assert server.log[0] is server.log[1] and server.log[3] is server.log[4] is server.log[5]


def test_a_version_other_than_the_public_one_goes_out_whole():
    server = Wire(Difference(TopK(1 / 4), reference="shared"), np.zeros(4))
    server.retrieve(0)
    server.publish(THETA)
    frame, state = server.link.send(0, np.ones(4), 0, server.state, RNG)
    np.testing.assert_array_equal(server.link.receive(frame, server.held[0], 4)[0], np.ones(4))
    assert 0 not in state.clients


def test_auto_spends_a_gibibyte_on_references():
    x, link = np.zeros(1 << 20), Difference(TopK(0.1), reference="auto")
    assert isinstance(link.init(x, 128), PerClientState)
    assert isinstance(link.init(x, 129), SharedState)


# ---------------------------------------------------------------- codecs of one's own


@dataclass(frozen=True)
class Quiet:
    """Another codec's bytes, and nothing said about them."""

    inner: object

    def bind(self, layout):
        return type(self)(self.inner.bind(layout))

    def encode(self, v, rng):
        return self.inner.encode(v, rng)

    def decode(self, frame, size):
        return self.inner.decode(frame, size)


@dataclass(frozen=True)
class Answers(Quiet):
    """Another codec's bytes and answers, but not its type."""

    @property
    def ratio(self):
        return self.inner.ratio

    @property
    def index(self):
        return self.inner.index

    def exact(self, dtype):
        return self.inner.exact(dtype)

    def support(self, v):
        return self.inner.support(v)


def frames_of(link):
    """The frames to three clients that come every round, every second and every third."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=60)
    server = Wire(link, x)
    for version in range(8):
        for client in range(3):
            if version % (client + 1) == 0:
                server.retrieve(client)
        x = x + (rng.random(60) < 0.2) * rng.normal(size=60)
        server.publish(x)
    return server.log


@pytest.mark.parametrize("reference", ["per_client", "shared"])
@pytest.mark.parametrize(
    "codec", [TopK(0.1), TopK(0.1, index="u32"), TopK(0.1, "fp16"), Dense(), Dense("fp16")], ids=str
)
def test_a_codec_is_asked_for_its_answers_and_not_for_its_type(codec, reference):
    expected = frames_of(Difference(codec, reference=reference))
    assert frames_of(Difference(Answers(codec), reference=reference)) == expected


@pytest.mark.parametrize("reference", ["per_client", "shared"])
def test_a_codec_that_says_nothing_about_its_entries_adds_to_them(reference):
    server = Wire(Difference(Quiet(TopK(1 / 4)), reference=reference), np.zeros(4))
    server.retrieve(0)
    server.publish(THETA)
    np.testing.assert_array_equal(server.retrieve(0), (4, 0, 0, 0))
    assert server.kinds() == ["DENSE", "SPARSE"] and wire.parse(server.log[1]).flags & wire.DIFF


def test_the_ring_of_a_shared_reference_holds_two_models_worth():
    """Top-1/4: eight changes; where the number of entries is open, or changes are added, one."""
    for codec, kept in ((TopK(1 / 4), 8), (Answers(TopK(1 / 4)), 8), (Dense(), 1), (Quiet(TopK(1 / 4)), 1)):
        server = Wire(Difference(codec, reference="shared"), np.zeros(4))
        for shift in range(1, 11):
            server.publish(THETA * 2.0**shift)
        assert len(server.state.changes) == kept


# ---------------------------------------------------------------- agreement and loss


def test_setting_twice_is_setting_once():
    """O16 g."""
    server = Wire(Difference(TopK(1 / 2)), np.zeros(4))
    server.retrieve(0)
    before = server.held[0]
    server.publish(THETA)
    once = server.retrieve(0)
    twice, _ = server.link.receive(server.log[-1], Replica(before.version, once), 4)
    assert twice.tobytes() == once.tobytes()


def test_every_frame_gives_the_copy_a_new_number():
    """Two frames of the same round must not bring a client to the same version."""
    assert number(5, 3) == 6 and number(5, 6) == 7 and number(7, 7) == 8


@pytest.mark.parametrize("reference", ["per_client", "shared"])
def test_a_frame_for_another_copy_is_refused_and_a_forgotten_client_starts_afresh(reference):
    server = Wire(Difference(TopK(1 / 4), reference=reference), np.zeros(4))
    server.retrieve(0)
    server.publish(THETA)
    frame, server.state = server.link.send(0, THETA, 1, server.state, RNG)
    for held in (None, Replica(7, np.zeros(4))):
        with pytest.raises(ResyncError, match="SET_SPARSE builds on version 1"):
            server.link.receive(frame, held, 4)
    server.state = server.link.forget(0, server.state)
    server.held.clear()
    server.retrieve(0)
    assert server.kinds()[-1] == "DENSE"


SOME = np.array([1.0, -2, 3, -4])


@pytest.mark.parametrize(
    "link, foreign",
    [
        (Full(), wire.build(Kind.SKIP)),
        (Full(), wire.stamp(Dense().encode(SOME, RNG), round=1, flags=wire.DIFF)),
        (CompressedModel(TopK(0.5)), wire.stamp(Dense().encode(SOME, RNG), round=0, flags=wire.ADD_PREV)),
        (CompressedModel(TopK(0.5), first="zero"), Dense().encode(SOME, RNG)),
        (Difference(TopK(0.5)), wire.stamp(Dense().encode(SOME, RNG), round=0, flags=wire.ADD_PREV)),
        (Difference(TopK(0.5)), wire.stamp(TopK(0.5).encode(SOME, RNG), round=0, ref=1, flags=wire.DIFF)),
        (Difference(ScaledSign()), wire.stamp(ScaledSign().encode(SOME, RNG), round=0, ref=1)),
        (Difference(ScaledSign()), wire.build(Kind.ACK, ref=1)),
    ],
)
def test_frames_of_other_links_are_refused(link, foreign):
    held = Replica(1, np.zeros(4)) if isinstance(link, Difference) else None
    with pytest.raises(FrameError):
        link.receive(foreign, held, 4)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Difference(RandK(0.5)), "Difference.codec must contract; got RandK"),
        (lambda: Difference(TopK(0.5), tau=1), "Difference.tau must be in [0, 1); got 1"),
        (
            lambda: Difference(TopK(0.5), reference="none"),
            "Difference.reference must be per_client or shared",
        ),
        (lambda: Difference(TopK(0.5), ring=0), "Difference.ring must be a whole number >= 1; got 0"),
        (lambda: CompressedModel(TopK(0.5), rule="lag"), "CompressedModel.rule must be nla or aa; got 'lag'"),
        (
            lambda: CompressedModel(TopK(0.5), first="seed"),
            "CompressedModel.first must be dense or zero; got 'seed'",
        ),
        (lambda: CompressedModel(Quantize(4)), "ErrorFeedback.codec must contract"),
        (lambda: as_downlink(Lazy("nla", 0.5)), "a downlink must be a codec or a Downlink; got Lazy"),
    ],
)
def test_bad_links_fail_when_they_are_built(make, message):
    with pytest.raises(ConfigError) as caught:
        make()
    assert str(caught.value).startswith(message)


def test_a_codec_alone_sends_the_whole_model_through_it():
    assert as_downlink(Dense("fp16")) == Full(Dense("fp16"))
    assert as_downlink(None) == Full(Dense())
    assert as_downlink(Difference(TopK(0.5))) == Difference(TopK(0.5))
    assert describe(Wire(Full(Dense("fp16")), THETA).state.frame, 4).payload_bytes == 8


LINKS = [
    LazyModel(),
    LazyModel(tau=3.0, lipschitz=[0.5, 1.0, 2.0], max_staleness=3),
    Full(),
    Full(Dense("fp16")),
    CompressedModel(TopK(0.2)),
    CompressedModel(ScaledSign(), "nla", 0.5, first="zero"),
    CompressedModel(Dense(), "aa", 0.1),
    Difference(TopK(0.1)),
    Difference(TopK(0.1, "fp16")),
    Difference(ScaledSign(), tau=0.1),
    Difference(Dense()),
    Difference(TopK(0.1), reference="shared"),
    Difference(TopK(0.1), reference="shared", ring=1),
    Difference(ScaledSign(), reference="shared"),
]


# ---------------------------------------------------------------- LAG-PS


def test_a_model_that_has_hardly_moved_is_not_sent_again():
    """lipschitz^2 ||x - h||^2 <= tau^2 (sum of the last R squared steps) / R: R = 2, steps of 2, then of 1."""
    server = Wire(LazyModel(tau=1.0, lipschitz=(1.0, 0.5, 9.0), past_steps=2), THETA)
    for client in range(3):
        server.retrieve(client)
    server.publish(THETA + [2, 0, 0, 0])  # ||x - h||^2 = 4 against (4 + 0) / 2 = 2
    starts = [server.retrieve(client)[0] for client in range(3)]
    assert server.kinds()[3:] == ["DENSE", "SKIP", "DENSE"] and starts == [6, 4, 6]
    server.publish(THETA + [3, 0, 0, 0])  # 1, 9/4 and 81 against (1 + 4) / 2
    starts = [server.retrieve(client)[0] for client in range(3)]
    assert server.kinds()[6:] == ["SKIP", "SKIP", "DENSE"] and starts == [6, 4, 7]
    assert server.log[8] is server.state.frame and server.held[0].model[0] == 6


def test_a_model_is_sent_again_after_so_many_rounds():
    server = Wire(LazyModel(tau=1e9, max_staleness=2), THETA)
    for _ in range(5):
        server.retrieve(0)
        server.publish(server.x + 1)
    assert server.kinds() == ["DENSE", "SKIP", "SKIP", "DENSE", "SKIP"]


def test_a_model_lost_on_its_way_is_noticed_at_the_next_skip():
    server = Wire(LazyModel(tau=1.0), THETA)
    server.retrieve(0)
    server.publish(THETA + 5)
    frame, server.state = server.link.send(0, server.x, 1, server.state, RNG)  # lost
    server.publish(server.x)
    with pytest.raises(ResyncError):
        server.retrieve(0)
    server.state = server.link.forget(0, server.state)
    np.testing.assert_array_equal(server.retrieve(0), THETA + 5)


def test_one_bound_for_each_client_or_one_for_all():
    with pytest.raises(ConfigError, match="one number, or 3"):
        LazyModel(lipschitz=[1.0, 2.0]).init(THETA, 3)
    with pytest.raises(ConfigError, match="lipschitz"):
        LazyModel(lipschitz=0.0)


# ---------------------------------------------------------------- a raw reference


def test_over_a_real_link_a_model_that_was_never_sent_is_refused():
    """Example 3 to the letter: the second skip in a row stands for a value that the client has not seen."""
    link = CompressedModel(Dense(), "nla", 0.9, "zero", "raw")
    server = Wire(link, THETA)
    for step in range(3):
        np.testing.assert_array_equal(server.retrieve(0)[0], [4, 4, 5][step])
        server.publish(server.x + 1)
    assert server.kinds() == ["DENSE", "SKIP", "SKIP"]
    assert [isinstance(frame, Phantom) for frame in server.log] == [False, False, True]
    held = None
    for frame in server.log[:2]:
        _, held = link.receive(bytes(frame), held, 4)
    with pytest.raises(ResyncError):
        link.receive(bytes(server.log[2]), held, 4)


@pytest.mark.parametrize("link", LINKS, ids=str)
def test_every_downlink_keeps_its_promises(link):
    check_downlink(link)
