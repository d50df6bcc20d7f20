"""Levels and their arithmetic code: what they cost, what they lose, what they refuse."""

from __future__ import annotations

import contextlib
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedpace import algorithms
from fedpace.algorithms.parameters import codec_of
from fedpace.check import check_codec
from fedpace.errors import ConfigError, FrameError
from fedpace.link import Accumulate, EntropyCoded, ErrorFeedback, Plain, Quantize, RandK
from fedpace.link.codecs import levels
from fedpace.link.codecs.entropy import (
    BLOCK,
    FARTHEST,
    LAG,
    MOST_LEVEL,
    NEAREST,
    CodedTensors,
    read,
    read_code,
    write_code,
)
from fedpace.link.wire import frame as wire
from fedpace.link.wire.frame import Kind
from fedpace.vector import Layout

BITS = 1.6
TYPES = (np.float16, np.float32, np.float64)


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def through(codec: EntropyCoded, v: np.ndarray, seed: int = 0) -> np.ndarray:
    return codec.decode(codec.encode(v, np.random.default_rng(seed)), v.size)


def one_tensor(size: int, lag: int = NEAREST) -> CodedTensors:
    return CodedTensors(np.array([0, size]), np.array([lag], LAG))


def step_of(frame: bytes, size: int) -> float:
    return float(read(frame, (size,))[0].scales[0])


# ---------------------------------------------------------------- the arithmetic coder


@given(st.lists(st.integers(-MOST_LEVEL, MOST_LEVEL) | st.integers(-2, 2), max_size=300), st.data())
@settings(deadline=None)
def test_integers_are_read_as_they_were_written(numbers: list[int], data: st.DataObject) -> None:
    q = np.array(numbers, np.int16)
    cut = data.draw(st.integers(0, q.size))
    lags = [data.draw(st.integers(NEAREST, FARTHEST)) for _ in range(2)]
    tensors = CodedTensors(np.array([0, cut, q.size]), np.array(lags, LAG))
    np.testing.assert_array_equal(read_code(write_code(q, tensors), tensors), q)


@given(st.binary(max_size=60), st.integers(1, 200))
@settings(deadline=None, max_examples=500)
def test_bytes_are_read_only_if_they_are_the_ones_that_are_written(code: bytes, size: int) -> None:
    tensors = one_tensor(size)
    with contextlib.suppress(FrameError):
        q = read_code(np.frombuffer(code, np.uint8), tensors)
        assert write_code(q, tensors).tobytes() == code


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=60), st.data())
@settings(deadline=None)
def test_a_code_with_a_byte_changed_is_another_code_or_none(numbers: list[int], data: st.DataObject) -> None:
    q, tensors = np.array(numbers, np.int16), one_tensor(len(numbers))
    code = bytearray(write_code(q, tensors).tobytes()) or bytearray(1)
    code[data.draw(st.integers(0, len(code) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(FrameError):
        assert write_code(read_code(np.array(code), tensors), tensors).tobytes() == code


@pytest.mark.parametrize("zeros", [0.5, 0.9, 0.99])
def test_a_code_is_as_long_as_the_entropy_of_independent_integers(zeros: float) -> None:
    """H = entropy of (-1, 0, 1), plus what it costs to learn the probabilities and to follow their last 255 draws."""
    d, p = 1 << 16, (1 - zeros) / 2
    q = rng().choice([-1, 0, 1], size=d, p=[p, zeros, p]).astype(np.int16)
    entropy = -(zeros * math.log2(zeros) + 2 * p * math.log2(p)) * d / 8
    assert entropy < write_code(q, one_tensor(d)).size < 1.01 * entropy + 100


def test_stripes_cost_next_to_nothing_once_the_lag_is_known() -> None:
    q = np.tile(rng().integers(-1, 2, 28), 400).astype(np.int16)
    assert write_code(q, one_tensor(q.size, 28)).size < 0.25 * write_code(q, one_tensor(q.size, 5)).size


def test_zeros_take_a_few_bytes() -> None:
    assert write_code(np.zeros(100_000, np.int16), one_tensor(100_000)).size < 15


# ---------------------------------------------------------------- dither


def test_the_error_of_dither_is_uniform_over_a_step_and_knows_nothing_of_the_vector() -> None:
    """Mean 0, variance s^2/12 and no correlation, within five standard deviations; fourth moment s^4/80."""
    v = rng().laplace(size=50_000)
    frame = EntropyCoded(BITS).encode(v, rng())
    s, error = step_of(frame, v.size), EntropyCoded(BITS).decode(frame, v.size) - v
    assert np.abs(error).max() <= s / 2 * (1 + 1e-9)
    variance = s**2 / 12
    assert abs(error.mean()) < 5 * math.sqrt(variance / v.size)
    assert abs((error**2).mean() - variance) < 5 * math.sqrt((s**4 / 80 - variance**2) / v.size)
    assert abs((error * v).mean()) < 5 * math.sqrt(variance * (v**2).mean() / v.size)


def test_errors_of_dither_average_out_over_frames_and_those_of_the_dead_zone_do_not() -> None:
    """The mean of n frames has error s^2/(12 n) per entry: a fiftieth for fifty clients with the same update."""
    v, n = rng().normal(size=4_000), 50
    frames = [EntropyCoded(BITS).encode(v, np.random.default_rng(client)) for client in range(n)]
    expected = np.mean([step_of(frame, v.size) ** 2 for frame in frames]) / 12 / n
    mean = np.mean([EntropyCoded(BITS).decode(frame, v.size) for frame in frames], axis=0)
    found = ((mean - v) ** 2).mean()
    assert abs(found / expected - 1) < 5 * math.sqrt(2 / v.size)
    still = ((through(EntropyCoded(BITS, dither=False), v) - v) ** 2).mean()
    assert found < still / 20


def test_the_dither_of_a_seed_is_a_fixed_sequence() -> None:
    """SplitMix64 of seed * 2^32 + i + 1, computed here in Python's integers."""
    mask = (1 << 64) - 1
    for i in range(3):
        z = ((7 << 32) + i + 1) * 0x9E3779B97F4A7C15 & mask
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
        assert levels.dither(np.uint64(7), i) == ((z ^ z >> 31) >> 11) / 2**53 - 0.5


def test_where_dither_would_leave_more_than_it_sends_it_is_left_out() -> None:
    """At a twentieth of a bit per entry the noise would be longer than the vector; the largest entries are sent."""
    v = rng().normal(size=2_000)
    frame = EntropyCoded(0.05).encode(v, rng())
    assert not wire.parse(frame).flags & wire.STOCHASTIC
    sent = EntropyCoded(0.05).decode(frame, v.size)
    assert 0 < np.count_nonzero(sent) < 40 and np.abs(v[sent != 0]).min() > np.abs(v[sent == 0]).max()


# ---------------------------------------------------------------- the dead zone


def test_entries_are_rounded_up_from_thirteen_twentieths_of_a_step() -> None:
    """0.64 -> 0, 0.66 and 1.5 -> 1, 1.7 -> 2, 3.6 -> 3: means 1.08 and (1.7 - 2 + 3.6 - 3) / 2."""
    v, q, out = np.array([0.64, -0.66, 1.5, 1.7, -3.6]), np.empty(5, np.int16), np.empty(5)
    first, rest = levels.with_dead_zone(v, 1.0, q)
    assert q.tolist() == [0, -1, 1, 2, -3] and (first, rest) == pytest.approx((1.08, 0.15))
    levels.with_means(q, 1.0, first, rest, 10.0, out)
    np.testing.assert_allclose(out, [0, -1.08, 1.08, 2.15, -3.15])


def test_a_level_vector_is_exact() -> None:
    v = np.where(rng().random(500) < 0.5, 3.0, -3.0)
    np.testing.assert_allclose(through(EntropyCoded(1.2, dither=False), v), v, rtol=1e-14)


@pytest.mark.parametrize("draw, share", [("normal", 0.2), ("laplace", 0.16)])
def test_at_a_bit_and_a_half_a_fifth_of_independent_entries_is_lost(draw: str, share: float) -> None:
    """The least possible for normal entries at 1.5 bits is 2^-3; dither loses more of one vector."""
    v = getattr(rng(), draw)(size=1 << 15)
    lost = [((through(EntropyCoded(1.5, dither), v) - v) ** 2).sum() / (v @ v) for dither in (False, True)]
    assert (draw != "normal" or lost[0] > 2**-3) and lost[0] < share and lost[0] < lost[1] < 2 * lost[0]


# ---------------------------------------------------------------- promises


@pytest.mark.parametrize("dither", [False, True])
@pytest.mark.parametrize("bits", [0.1, BITS, 5.0])
def test_entropy_coding_keeps_its_promises(bits: float, dither: bool) -> None:
    check_codec(EntropyCoded(bits, dither))


@pytest.mark.parametrize("dither", [False, True])
@pytest.mark.parametrize("bits", [0.5, BITS, 4.0])
def test_a_frame_has_at_most_the_bits_it_may_have_and_hardly_fewer(bits: float, dither: bool) -> None:
    """20 bytes of header, 12 or 8 of scales and seed, 2 of the lag; the code."""
    for v in (rng().normal(size=30_000), rng().laplace(size=30_000), rng().standard_t(3, 30_000)):
        v = v.astype(np.float32)
        code = len(EntropyCoded(bits, dither).encode(v, rng())) - (30 if dither else 34)
        assert 0.96 * bits * v.size / 8 - 8 < code <= math.ceil(bits * v.size / 8) + 4


@given(
    hnp.arrays(np.float64, st.integers(1, 60), elements=st.floats(-1e300, 1e300)),
    st.floats(0.01, 12),
    st.booleans(),
)
@settings(deadline=None)
def test_every_vector_is_contracted(v: np.ndarray, bits: float, dither: bool) -> None:
    top = np.abs(v).max() or 1.0
    error, whole = (through(EntropyCoded(bits, dither), v) - v) / top, v / top
    assert error @ error <= EntropyCoded(bits, dither).contraction(v.size) * (whole @ whole) + 1e-12


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("dither", [False, True])
def test_the_ends_of_the_range_of_numbers(dtype: type, dither: bool) -> None:
    found = np.finfo(dtype)
    for top in (found.max, found.smallest_subnormal, found.smallest_normal):
        v = (np.array([1.0, -1.0, 1.0, 0.0]) * float(top)).astype(dtype)
        sent = through(EntropyCoded(3.0, dither), v)
        assert np.isfinite(sent).all() and sent.dtype == np.result_type(dtype, np.float32)
    np.testing.assert_array_equal(through(EntropyCoded(BITS, dither), np.zeros(5, dtype)), np.zeros(5))


def test_the_lag_is_that_of_the_rows_of_an_image() -> None:
    """Smooth pictures of 28x28, one for each of 16 hidden units, look most alike one row apart."""
    coarse = np.kron(rng().normal(size=(16, 7, 7)), np.ones((4, 4)))
    v = (coarse * np.linspace(0.5, 1.5, 28)).reshape(-1) + 0.1 * rng().normal(size=16 * 784)
    frame = EntropyCoded(BITS).bind(Layout.of({"w": (16, 784)})).encode(v, rng())
    assert read(frame, (16 * 784,))[1].lags.tolist() == [28]


# ---------------------------------------------------------------- refusals


def test_frames_that_no_codec_writes_are_refused() -> None:
    v = np.linspace(-1, 1, 40)
    plain, dithered = (EntropyCoded(BITS, dither).encode(v, rng()) for dither in (False, True))
    head = wire.HEADER_BYTES
    lag = head + 3 * 8
    for frame, at, new, what in (
        (plain, slice(lag, lag + 2), bytes(2), "a lag is not in"),
        (plain, slice(lag, lag + 2), b"\xff\xff", "a lag is not in"),
        (plain, slice(head, head + 8), bytes(8), "missing or in vain"),
        (plain, slice(head + 8, head + 16), bytes(8), "missing or in vain"),
        (plain, slice(head, head + 8), np.array([-1.0]).tobytes(), "negative"),
        (plain, slice(head + 16, head + 24), np.array([2.0]).tobytes(), "out of range"),
        (plain, slice(head, head + 8), np.array([np.inf]).tobytes(), "not finite"),
        (dithered, slice(head, head + 8), bytes(8), "missing or in vain"),
        (plain, slice(len(plain), len(plain)), b"\0", "not a code"),
        (plain, slice(lag + 2, None), b"\0" * 8, "not a code"),
        (plain, slice(lag, None), b"", "too few"),
    ):
        payload = bytearray(frame)
        payload[at] = new
        broken = wire.build(Kind.CODED, bytes(payload[head:]), flags=wire.parse(frame).flags)
        with pytest.raises(FrameError, match=what):
            EntropyCoded(BITS).decode(broken, v.size)


@given(st.binary(max_size=80), st.integers(1, 300), st.booleans())
@settings(deadline=None)
def test_whatever_bytes_come_decoding_ends(code: bytes, size: int, dither: bool) -> None:
    scales = np.array([0.5] if dither else [0.5, 0.6, 0.1], "<f4").tobytes() + bytes(4 if dither else 0)
    flags = wire.STOCHASTIC if dither else 0
    frame = wire.build(Kind.CODED, scales, np.array([5], LAG).tobytes(), code, flags=flags)
    with contextlib.suppress(FrameError):
        assert np.isfinite(EntropyCoded(BITS).decode(frame, size)).all()


def test_a_codec_without_dither_takes_no_dithered_frames() -> None:
    v = rng().normal(size=30)
    with pytest.raises(FrameError, match="dither"):
        EntropyCoded(BITS, dither=False).decode(EntropyCoded(BITS).encode(v, rng()), v.size)


@pytest.mark.parametrize("bits", [0, -1, 13, math.nan, "1"])
def test_bits_that_make_no_sense(bits: object) -> None:
    with pytest.raises(ConfigError, match="EntropyCoded.bits"):
        EntropyCoded(bits)  # type: ignore[arg-type]


# ---------------------------------------------------------------- by name


def test_two_way_may_send_dithered_updates_without_a_memory() -> None:
    up = algorithms.two_way(codec="dithered:8/5", memory="none").up
    assert up == Plain(EntropyCoded(1.6))
    with pytest.raises(ConfigError, match="tau must be zero"):
        algorithms.two_way(memory="none", tau=1.2)
    assert codec_of("entropy:1.59") == EntropyCoded(1.59, dither=False)


# ---------------------------------------------------------------- in place


@pytest.mark.parametrize("dither", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_frame_is_subtracted_block_by_block_as_the_vector_that_it_is(dither: bool, dtype: type) -> None:
    """v - decode(frame) to the bit, over more than one block; written over v, and without a second vector."""
    codec, v = EntropyCoded(BITS, dither), rng().standard_t(3, 2 * BLOCK + 5).astype(dtype)
    frame = codec.encode(v, rng())
    rest, own = v - codec.decode(frame, v.size), v.copy()
    assert codec.subtract(frame, own) is own
    np.testing.assert_array_equal(own, rest)


@pytest.mark.parametrize("dither", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_levels_that_lie_in_the_decoded_vector_are_those_of_an_array_of_their_own(
    dither: bool, dtype: type
) -> None:
    v = rng().standard_normal(3000).astype(dtype)
    frame = EntropyCoded(BITS, dither).encode(v, rng())
    (apart, _), (within, _) = read(frame, (3000,)), read(frame, (3000,), in_place=True)
    assert within.q.dtype == dtype and apart.q.dtype == np.int16
    np.testing.assert_array_equal(within.q, apart.q)


def test_two_way_remembers_errors_only_where_they_do_not_average_out():
    """Unbiased codecs need no memory; biased ones, and uploads that are skipped, do."""
    dithered, entropy = EntropyCoded(1.59), EntropyCoded(1.59, dither=False)
    assert algorithms.two_way().up == Plain(dithered)
    assert algorithms.two_way(codec=RandK(0.25)).up == Plain(RandK(0.25))
    assert algorithms.two_way(codec=entropy).up == ErrorFeedback(entropy)
    assert algorithms.two_way(codec=Quantize(4, stochastic=False)).up == ErrorFeedback(
        Quantize(4, stochastic=False)
    )
    assert algorithms.two_way(tau=1.2).up == Accumulate(1.2, ErrorFeedback(dithered))
    assert algorithms.two_way(memory="ef").up == ErrorFeedback(dithered)
