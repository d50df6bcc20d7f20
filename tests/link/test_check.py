"""The conformance checks find what they are there to find."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from fedpace.check import check_codec, check_downlink, check_uplink
from fedpace.errors import FrameError
from fedpace.link import (
    Dense,
    Difference,
    ErrorFeedback,
    Full,
    Lazy,
    Plain,
    Quantize,
    RandK,
    ScaledSign,
    TopK,
)
from fedpace.link.wire import frame as wire
from fedpace.link.wire.frame import Kind


class Bound:
    def bind(self, layout):
        return self


@dataclass(frozen=True)
class Claims(Bound):
    """A codec with another's claims."""

    inner: object
    contraction: object = lambda size: None
    omega: object = lambda size: None

    def encode(self, v, rng):
        return self.inner.encode(v, rng)

    def decode(self, frame, size):
        return self.inner.decode(frame, size)


class Scribbles(Dense):
    def encode(self, v, rng):
        v *= 1
        return super().encode(v, rng)


class Forgetful(Dense):
    """Takes its numbers from nowhere in particular."""

    def encode(self, v, rng):
        return super().encode(v + np.random.default_rng().random(), rng)


class Stamps(Dense):
    def encode(self, v, rng):
        return wire.stamp(super().encode(v, rng), round=3)


class Trusting(Dense):
    """Reads as many values as there are and believes the rest to be zero."""

    def decode(self, frame, size):
        found = (
            np.frombuffer(frame, "<f8", max(0, len(frame) - 20) // 8, 20) if len(frame) > 20 else np.zeros(0)
        )
        return np.resize(found, size) if found.size else np.zeros(size)


class Careless(Dense):
    """Takes a damaged frame for what was sent."""

    def decode(self, frame, size):
        return super().decode(wire.sealed(frame), size)


class Hides(Dense):
    """Replaces NaN by zero, so that nobody learns of it."""

    def encode(self, v, rng):
        return super().encode(np.nan_to_num(v), rng)


class Rounds(TopK):
    """Rounds its values and says that it does not."""

    def exact(self, dtype):
        return True


class Backwards(TopK):
    def encode(self, v, rng):
        return TopK(self.ratio).encode(v, rng)

    def support(self, v):
        return super().support(v)[::-1]


@pytest.mark.parametrize(
    "codec, error, says",
    [
        (Scribbles(), AssertionError, "encode writes into what it was given"),
        (Forgetful(), AssertionError, "different bytes"),
        (Stamps(), AssertionError, "round and ref"),
        (Trusting(), AssertionError, "was accepted"),
        (Careless(), AssertionError, "a bit of byte 4 flipped was accepted"),
        (Hides(), AssertionError, "went through"),
        (Claims(TopK(1 / 8), contraction=lambda size: 0.5), AssertionError, "contraction 0.5 claimed"),
        (Claims(RandK(1 / 8), omega=lambda size: 5.0), AssertionError, "omega 5.0 claimed"),
        (
            Claims(Quantize(2, stochastic=False), omega=lambda size: 9.0),
            AssertionError,
            "claims to be unbiased",
        ),
        (Rounds(1 / 8, "fp16"), AssertionError, "arrive unchanged; not so"),
        (Backwards(1 / 8), AssertionError, "support must ascend"),
        (Claims(ScaledSign(), contraction=lambda size: 1 - 2 / size), AssertionError, "claimed"),
    ],
)
def test_a_codec_that_breaks_its_promise_is_found_out(codec, error, says):
    with pytest.raises(error, match=says):
        check_codec(codec)


def test_a_codec_without_claims_need_only_be_sound():
    check_codec(Claims(TopK(1 / 8)))


@dataclass(frozen=True)
class Impatient(ErrorFeedback):
    """Commits its memory when it sends, not when it is acknowledged."""

    def send(self, v, state, context, rng):
        frame, after = super().send(v, state, context, rng)
        object.__setattr__(state, "e", after.e)
        return frame, after


@dataclass(frozen=True)
class Unstamped(Plain):
    def send(self, v, state, context, rng):
        return self.codec.encode(v, rng), state


@dataclass(frozen=True)
class Credulous(Lazy):
    """Reuses what it holds whatever the frame says it builds on, and never asks."""

    def receive(self, frame, state, size):
        try:
            return super().receive(frame, state, size)
        except FrameError:
            return np.zeros(size), state


@pytest.mark.parametrize(
    "link, says",
    [
        (Impatient(TopK(0.1)), "send writes into what it was given"),
        (Unstamped(), "stamps the round"),
        (Credulous("nla", 0.5), "was accepted"),
    ],
)
def test_an_uplink_that_breaks_its_promise_is_found_out(link, says):
    with pytest.raises(AssertionError, match=says):
        check_uplink(link)


@dataclass(frozen=True)
class SaysShared(Difference):
    @property
    def shared(self):
        return True


@dataclass(frozen=True)
class NeverForgets(Difference):
    def forget(self, client, state):
        return state


def test_a_downlink_that_breaks_its_promise_is_found_out():
    with pytest.raises(AssertionError, match="different models"):
        check_downlink(SaysShared(TopK(0.1)))
    with pytest.raises(FrameError, match="builds on version"):
        check_downlink(NeverForgets(TopK(0.1)))
    check_downlink(replace(Full(), codec=Dense("bf16")))


def test_control_frames_are_not_vectors():
    for kind in (Kind.SKIP, Kind.ACK, Kind.RESYNC):
        with pytest.raises(FrameError):
            Dense().decode(wire.build(kind), 0)
