"""Codecs: the compressors' exact values, their bytes, and what they claim."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from fedpace.check import check_codec
from fedpace.errors import ConfigError, FrameError
from fedpace.link import Dense, Octaves, Quantize, RandK, ScaledSign, TopK
from fedpace.link.codecs.groups import kept
from fedpace.link.codecs.select import _largest, largest
from fedpace.link.wire import frame as wire
from fedpace.vector import Layout

RNG = np.random.default_rng(0)
X = np.array([3.0, -3, 1, 0, 2, -2])
SIGNED = np.array([3.0, -1, 0, 2])
QUANTISED = np.array([0.3, -0.7, 1, 0])
TENSORS = Layout.of({"large": (2,), "none": (0, 5), "small": (2, 1)})


def through(codec, v):
    return codec.decode(codec.encode(v, RNG), v.size)


def error2(codec, v):
    return float(np.square(through(codec, v) - v).sum())


# ---------------------------------------------------------------- top-k


@pytest.mark.parametrize(
    "k, kept_values, error",
    [
        (1, (3, 0, 0, 0, 0, 0), 18),
        (2, (3, -3, 0, 0, 0, 0), 9),
        (3, (3, -3, 0, 0, 2, 0), 5),
        (4, (3, -3, 0, 0, 2, -2), 1),
        (6, (3, -3, 1, 0, 2, -2), 0),
    ],
)
def test_top_k_keeps_the_largest_and_the_lower_index_among_equals(k, kept_values, error):
    """O1; the bound is (1 - k/d) ||x||^2 with ||x||^2 = 27."""
    codec = TopK(k / 6)
    np.testing.assert_array_equal(through(codec, X), kept_values)
    assert error2(codec, X) == error <= codec.contraction(6) * 27


def test_nothing_of_a_zero_vector_is_sent():
    frame = TopK(0.5).encode(np.zeros(6), RNG)
    assert len(frame) == 24
    np.testing.assert_array_equal(TopK(0.5).decode(frame, 6), np.zeros(6))


def test_zeros_are_not_sent_even_if_they_are_among_the_largest():
    assert through(TopK(1.0), X).tolist() == X.tolist()
    assert int.from_bytes(TopK(1.0).encode(X, RNG)[20:24], "little") == 5


def test_a_value_that_underflows_is_not_sent():
    frame = TopK(1.0, "fp16").encode(np.array([1.0, 1e-9, 2.0]), RNG)
    assert int.from_bytes(frame[20:24], "little") == 2
    np.testing.assert_array_equal(TopK(1.0, "fp16").decode(frame, 3), [1, 0, 2])


def test_the_contraction_of_top_k_is_reached_by_a_level_vector():
    """O2: ones(64), k = 8: exactly 7/8."""
    codec = TopK(1 / 8)
    assert error2(codec, np.ones(64)) / 64 == 0.875 == codec.contraction(64)


@pytest.mark.parametrize(
    "ratio, q, constant",
    [(1 / 8, 0.9354143467, 224), (1 / 64, 0.9921567416, 16128), (1 / 128, 0.9960860907, 65024)],
)
def test_constants_of_the_theory(ratio, q, constant):
    """O4: q = sqrt(1 - r), and the bound on the memory 4 q^2 / (1 - q^2)^2."""
    q2 = TopK(ratio).contraction(1 << 14)
    assert math.sqrt(q2) == pytest.approx(q, abs=1e-10)
    assert 4 * q2 / (1 - q2) ** 2 == pytest.approx(constant, rel=1e-12)


VECTORS = arrays.arrays(np.float64, st.integers(1, 40), elements=st.floats(-1e6, 1e6, allow_subnormal=False))


@given(VECTORS, st.floats(0.01, 1))
@settings(deadline=None)
def test_top_k_contracts_every_vector(v, ratio):
    codec = TopK(ratio)
    assert error2(codec, v) <= codec.contraction(v.size) * float(v @ v) * (1 + 1e-12)


@given(
    arrays.arrays(
        st.sampled_from([np.float32, np.float64]), st.integers(1, 300), elements=st.integers(-4, 4)
    ),
    st.data(),
)
@settings(deadline=None)
def test_selection_by_counting_bits_is_selection_by_sorting(v, data):
    k = data.draw(st.integers(1, v.size))
    scaled = v * v.dtype.type(data.draw(st.sampled_from([1.0, 1e-3, 1e-30, 1e-42])))
    order = np.argsort(-np.abs(scaled), kind="stable")[:k]
    expected = np.sort(order[scaled[order] != 0])
    np.testing.assert_array_equal(_largest(scaled, k), expected)
    np.testing.assert_array_equal(largest(scaled, k), expected)


def test_a_long_vector_is_selected_exactly():
    v = np.random.default_rng(3).standard_cauchy(20_000).astype(np.float32)
    order = np.argsort(-np.abs(v), kind="stable")[:157]
    np.testing.assert_array_equal(largest(v, 157), np.sort(order))
    np.testing.assert_array_equal(largest(v.astype(np.float16), 157).size, 157)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_long_vector_that_is_not_finite_is_refused(bad):
    v = np.ones(5000)
    v[4321] = bad
    with pytest.raises(FrameError, match="not finite"):
        TopK(0.01).encode(v, RNG)


def test_k_is_rounded_up_but_not_for_rounding():
    """k = max(1, ceil(r d)): .07 of 100 is 7 although .07 * 100 > 7 in binary."""
    assert [kept(0.07, 100), kept(0.071, 100), kept(1e-9, 100), kept(1.0, 3)] == [7, 8, 1, 3]


def test_per_tensor_every_tensor_keeps_its_share():
    v = np.array([9.0, 8, 7, 6, 0.1, 0.2])
    codec = TopK(1 / 2).bind(Layout.of({"a": (4,), "b": (2,)}))
    np.testing.assert_array_equal(through(codec, v), [9, 8, 0, 0, 0, 0.2])
    assert codec.contraction(6) == 0.5


# ---------------------------------------------------------------- scaled sign


def test_scaled_sign_takes_zero_as_positive():
    """O3: scale 1.5, squared error 5 = 14 - 36/4."""
    np.testing.assert_array_equal(through(ScaledSign(), SIGNED), [1.5, -1.5, 1.5, 1.5])
    assert error2(ScaledSign(), SIGNED) == 5
    assert math.sqrt(error2(ScaledSign(), SIGNED) / 14) == pytest.approx(0.5976143047, abs=1e-10)


def test_scaled_sign_is_exact_on_a_level_vector_and_worst_on_a_spike():
    assert error2(ScaledSign(), np.array([2.0, -2, 2, -2])) == 0
    spike = np.zeros(64)
    spike[5] = 1
    assert error2(ScaledSign(), spike) == 0.984375 == ScaledSign().contraction(64)


def test_a_scale_per_tensor_saves_the_small_ones():
    """O3: tensors (1, 1) and (.01, -.01): flat .9801, per tensor nothing lost."""
    v = np.array([1, 1, 0.01, -0.01])
    assert error2(ScaledSign(), v) == pytest.approx(0.9801, abs=1e-12)
    assert error2(ScaledSign().bind(TENSORS), v) == 0
    assert len(ScaledSign("fp32").bind(TENSORS).encode(v, RNG)) == 20 + 2 * (4 + 1)


# ---------------------------------------------------------------- rand-k


def test_rand_k_scales_what_it_keeps():
    v = np.arange(1.0, 11)
    sent = through(RandK(0.3), v)
    assert np.count_nonzero(sent) == 3
    np.testing.assert_allclose(sent[sent != 0], v[sent != 0] * 10 / 3)
    assert RandK(0.3).omega(10) == pytest.approx(10 / 3 - 1)
    assert RandK(0.3).contraction(10) is None and RandK(0.3, unbiased=False).omega(10) is None


# ---------------------------------------------------------------- quantiser


def test_nearest_quantisation():
    """O13: (1/3, -2/3, 1, 0), squared error .0022222222."""
    codec = Quantize(3, stochastic=False)
    np.testing.assert_allclose(through(codec, QUANTISED), [1 / 3, -2 / 3, 1, 0], rtol=1e-15)
    assert error2(codec, QUANTISED) == pytest.approx(0.0022222222, abs=1e-10)


def test_stochastic_quantisation_is_unbiased_with_variance_a_hundredth():
    """O13: every entry within 5 sqrt(.01 / N) of its value."""
    draws = 4000
    sent = np.stack([through(Quantize(3), QUANTISED) for _ in range(draws)])
    assert np.abs(sent.mean(0) - QUANTISED).max() <= 5 * math.sqrt(0.01 / draws)
    assert set(np.round(sent[:, 0] * 3).astype(int)) == {0, 1}
    np.testing.assert_array_equal(sent[:, 2:], np.tile([1.0, 0.0], (draws, 1)))


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_the_contraction_of_nearest_is_reached(bits):
    """All but the largest half a step up: each loses s^2/4 of scale^2."""
    s, d = 2 ** (bits - 1) - 1, 33
    v = np.full(d, np.nextafter(0.5, 0) / s)
    v[0] = 1
    codec = Quantize(bits, stochastic=False)
    assert error2(codec, v) / float(v @ v) == pytest.approx(codec.contraction(d), rel=1e-12)
    assert codec.contraction(d) == pytest.approx(32 / (32 + 4 * s * s))


@pytest.mark.parametrize("bits", [2, 4])
def test_the_variance_of_stochastic_is_reached(bits):
    """All but the largest at y of a step, y = sqrt(c^2 + c) - c with c = s^2/(d-1): omega = 1/(2y) - 1."""
    s, d = 2 ** (bits - 1) - 1, 33
    c = s * s / (d - 1)
    y = math.sqrt(c * c + c) - c
    variance, norm2 = (d - 1) * y * (1 - y) / s**2, 1 + (d - 1) * y * y / s**2
    assert Quantize(bits).omega(d) == pytest.approx(variance / norm2, rel=1e-12)
    assert Quantize(bits).omega(d) == pytest.approx(1 / (2 * y) - 1, rel=1e-12)


@pytest.mark.parametrize("bits", [2, 5, 16])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tiny_and_zero_vectors_quantise_without_dividing_by_zero(bits, dtype):
    tiny = np.full(3, np.finfo(dtype).smallest_subnormal, dtype)
    np.testing.assert_array_equal(through(Quantize(bits), tiny), tiny)
    np.testing.assert_array_equal(through(Quantize(bits), np.zeros(3, dtype)), np.zeros(3))


@pytest.mark.parametrize("values", ["fp16", "bf16", "fp32"])
def test_a_rounded_scale_is_never_below_the_largest_entry(values):
    """Else the largest entry would be cut off, and stochastic rounding biased."""
    for v in np.random.default_rng(1).normal(size=(50, 3)):
        sent = through(Quantize(2, stochastic=False, values=values), v)
        assert np.abs(v).max() <= np.abs(sent).max() <= np.abs(v).max() * (1 + 3 * 2**-8)
    assert through(Quantize(8, stochastic=False, values=values), np.ones(2)).tolist() == [1, 1]


def test_a_scale_near_the_largest_number_decodes_without_running_over():
    v = np.array([1.0, -0.5, 0.0]) * np.finfo(float).max
    np.testing.assert_array_equal(through(Quantize(16), v)[[0, 2]], v[[0, 2]])


def test_minus_zero_is_not_a_code():
    frame = bytearray(Quantize(4, stochastic=False).encode(np.array([1.0, 0.0]), RNG))
    frame[-1] |= 0x08
    with pytest.raises(FrameError, match="QUANT"):
        Quantize(4, stochastic=False).decode(wire.sealed(bytes(frame)), 2)


def test_bits_and_rounding_must_match():
    v = np.ones(8)
    for codec, other in ((Quantize(4), Quantize(5)), (Quantize(4), Quantize(4, stochastic=False))):
        with pytest.raises(FrameError, match="not made by"):
            codec.decode(other.encode(v, RNG), 8)


# ---------------------------------------------------------------- ternary


def test_ternary_keeps_signs_and_the_mean_magnitude_of_the_largest():
    """||C(v) - v||^2 = ||v||^2 - ||v_S||_1^2 / k; the lower index among equals, never a zero."""
    np.testing.assert_array_equal(through(Octaves(1 / 2, 1), SIGNED), [2.5, 0, 0, 2.5])
    assert error2(Octaves(1 / 2, 1), SIGNED) == 14 - 5**2 / 2
    np.testing.assert_array_equal(through(Octaves(1 / 3, 1), X), [3, -3, 0, 0, 0, 0])
    np.testing.assert_array_equal(through(Octaves(1.0, 1), X), np.sign(X) * 11 / 5)
    np.testing.assert_array_equal(through(Octaves(1.0, 1), np.zeros(3)), np.zeros(3))


def test_ternary_has_one_magnitude_for_every_tensor():
    v = np.array([1.0, -1, 0.01, 0.01])
    assert error2(Octaves(1.0, 1).bind(TENSORS), v) == 0
    assert error2(Octaves(1.0, 1), v) == pytest.approx(2.0002 - 2.02**2 / 4, abs=1e-12)


def test_half_of_gaussian_entries_leave_a_fifth_of_the_square_at_a_bit_and_a_half():
    """E|x| above the median of |x| is 2 phi(z) / (1/2), z = .6745; entropy 1, and a bit for every other sign."""
    v = np.random.default_rng(3).normal(size=1 << 16).astype(np.float32)
    kept = 0.5 * (4 * math.exp(-(0.67449**2) / 2) / math.sqrt(2 * math.pi)) ** 2
    assert error2(Octaves(1 / 2, 1), v) / v.size == pytest.approx(1 - kept, abs=0.02)
    assert len(Octaves(1 / 2, 1).encode(v, RNG)) == 28 + 1.5 * v.size / 8


def test_a_frame_that_ternary_would_not_write_is_refused():
    codec, size = Octaves(1 / 2, 1, index="bitmask"), 4
    frame = bytearray(codec.encode(SIGNED.astype(np.float32), RNG))
    for at, value, what in (
        (24, 0xE0, "positions|entries"),
        (28, 0xC0, "negative"),
        (29, 0xE0, "bits after"),
    ):
        broken = bytearray(frame)
        broken[at] = value
        with pytest.raises(FrameError, match=what):
            codec.decode(wire.sealed(bytes(broken)), size)
    silent = bytes(frame[:25]) + bytes(4) + bytes(frame[29:])
    with pytest.raises(FrameError, match="missing"):
        codec.decode(wire.sealed(silent), size)
    bound = codec.bind(TENSORS)
    uneven = bytearray(bound.encode(SIGNED.astype(np.float32), RNG))
    uneven[24] = 0xC0  # both entries in the first tensor
    with pytest.raises(FrameError, match="too many"):
        bound.decode(wire.sealed(bytes(uneven)), size)
    many = Octaves(1.0, 1).encode(SIGNED + 4, RNG)
    with pytest.raises(FrameError, match="allowed"):
        codec.decode(many, size)


def test_octaves_have_a_magnitude_each():
    """1 | 2, 3 | 4, 7 | 8 and all above it, twice as large as the octave before; zeros have none."""
    v = np.array([1.0, -2, 3, 4, -7, 8, 100, 0])
    np.testing.assert_array_equal(through(Octaves(1.0), v), [1, -2.5, 2.5, 5.5, -5.5, 54, 54, 0])
    two = np.array([1, -124, 124, 124, -124, 124, 124, 0]) / np.array([1, 6, 6, 6, 6, 6, 6, 1])
    np.testing.assert_array_equal(through(Octaves(1.0, 2), v), two)
    np.testing.assert_array_equal(through(Octaves(1 / 4), v), [0, 0, 0, 0, 0, 8, 100, 0])
    wide = np.array([5e-324, 1e308])
    np.testing.assert_array_equal(through(Octaves(1.0), wide), wide)


def test_an_octave_costs_one_bit_more_than_the_one_below():
    """Magnitudes 1, 2, 4, 8 in unary: 0 10 110 1110, ten bits; signs 1011; all of four positions; four magnitudes."""
    v = np.array([1.0, -2, 4, 8], np.float32)
    frame = Octaves(1.0, index="bitmask").encode(v, RNG)
    scales = np.array([1, 2, 4, 8], "<f4").tobytes()
    head = bytes([4, 0, 0, 0, 2, 0, 0, 0, 0b11110000])
    assert frame[20:] == head + scales + bytes([0b10110000, 0b01011011, 0b10000000])
    assert through(Octaves(1.0), v).tolist() == v.tolist()


def test_octaves_that_do_not_add_up_are_refused():
    codec = Octaves(1.0, index="bitmask")
    frame = codec.encode(np.array([1.0, -2, 4, 8], np.float32), RNG)
    for at, value, what in (
        (-1, 0b10100000, "do not hold"),  # padding
        (-2, 0b11111011, "not below 4"),
        (-1, 0b11111111, "do not hold"),  # an end is missing
        (-2, 0b01101101, "missing or in vain"),  # an octave without entries
        (24, 200, "bytes of octaves"),
    ):
        broken = bytearray(frame)
        broken[at] = value
        with pytest.raises(FrameError, match=what):
            codec.decode(wire.sealed(bytes(broken)), 4)


@pytest.mark.parametrize("levels", [1, 2, 4])
@pytest.mark.parametrize("ratio", [0.02, 0.25, 1.0])
def test_octaves_keep_their_promises(ratio, levels):
    check_codec(Octaves(ratio, levels))
    check_codec(Octaves(ratio, levels, index="rice"))


# ---------------------------------------------------------------- bytes


@pytest.mark.parametrize(
    "codec, v, expected",
    [
        (
            TopK(1 / 2, values="fp32", index="varint"),
            X,
            "02022000 01000000 00000000 13000000 b1a23528 03000000 000002 00004040 000040c0 00000040",
        ),
        (
            Octaves(1 / 2, 1, index="bitmask"),
            SIGNED.astype(np.float32),
            "02081000 01000000 00000000 0a000000 e4821d72 02000000 90 00002040 c0",
        ),
        (ScaledSign("fp32"), SIGNED, "02030000 01000000 00000000 05000000 87be52a1 0000c03f b0"),
        (
            Quantize(3, stochastic=False, values="fp32"),
            QUANTISED,
            "02040003 01000000 00000000 06000000 e1b346f9 0000803f 3980",
        ),
    ],
)
def test_exact_bytes(codec, v, expected):
    """O14."""
    frame = wire.stamp(codec.encode(v, RNG), round=1)
    assert frame.hex() == expected.replace(" ", "")


def test_a_float32_vector_needs_no_value_type_to_be_named():
    frame = ScaledSign().encode(SIGNED.astype(np.float32), RNG)
    assert frame == ScaledSign("fp32").encode(SIGNED, RNG)


@pytest.mark.parametrize("codec", [TopK(0.5), RandK(0.5)])
def test_more_entries_than_the_ratio_allows_are_refused(codec):
    with pytest.raises(FrameError, match="6 values, but 3 allowed"):
        codec.decode(TopK(1.0).encode(X + 10, RNG), 6)


@pytest.mark.parametrize("codec", [TopK(0.5, index="u32"), RandK(0.5, index="u32")])
def test_zero_entries_and_other_index_codecs_are_refused(codec):
    frame = bytearray(TopK(1 / 6, index="u32").encode(X, RNG))
    frame[-8:] = bytes(8)
    with pytest.raises(FrameError, match="a value is zero"):
        codec.decode(wire.sealed(bytes(frame)), 6)
    with pytest.raises(FrameError, match="expected u32 indices; got bitmask"):
        codec.decode(TopK(0.5, index="bitmask").encode(X, RNG), 6)


@pytest.mark.parametrize("payload", [b"", b"\1\0\0", b"\xff\xff\xff\xff", b"\2\0\0\0" + bytes(15)])
def test_a_claimed_count_is_checked_against_the_bytes_that_came(payload):
    with pytest.raises(FrameError):
        TopK(1.0).decode(wire.build(wire.Kind.SPARSE, payload, flags=2 << 6), 2**40)


def test_a_bound_codec_works_only_on_its_layout():
    codec = ScaledSign().bind(TENSORS)
    assert codec.groups == (2, 2)
    with pytest.raises(ConfigError, match="ScaledSign: a vector's size must be 4, as bound; got 5"):
        codec.encode(np.ones(5), RNG)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: TopK(0), "TopK.ratio must be in (0, 1]; got 0"),
        (lambda: TopK(1.5), "TopK.ratio must be in (0, 1]; got 1.5"),
        (lambda: RandK(-0.1), "RandK.ratio must be in (0, 1]; got -0.1"),
        (lambda: Quantize(1), "Quantize.bits must be in 2..16; got 1"),
        (lambda: Quantize(17), "Quantize.bits must be in 2..16; got 17"),
        (lambda: Quantize(2.0), "Quantize.bits must be a whole number >= 1; got 2.0"),
        (
            lambda: ScaledSign("fp8"),
            "ScaledSign.values must be None or one of fp32, fp16, bf16, fp64; got 'fp8'",
        ),
    ],
)
def test_bad_hyper_parameters(make, message):
    with pytest.raises(ConfigError) as caught:
        make()
    assert str(caught.value) == message


# ---------------------------------------------------------------- claims

CODECS = [
    Dense(),
    Dense("fp16"),
    Dense("bf16"),
    Dense("fp32"),
    TopK(1 / 8),
    TopK(0.1, values="fp16", index="rice"),
    TopK(0.3, values="bf16"),
    RandK(0.2),
    RandK(0.2, unbiased=False),
    ScaledSign(),
    ScaledSign("fp16"),
    Quantize(2),
    Quantize(4),
    Quantize(3, stochastic=False),
    Quantize(8, stochastic=False),
    Quantize(4, values="bf16"),
    Quantize(16, stochastic=False, values="fp16"),
]


@pytest.mark.parametrize("codec", CODECS, ids=str)
def test_every_codec_keeps_its_promises(codec):
    check_codec(codec)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("codec", [Octaves(1 / 4), Octaves(1 / 2, 1), Octaves(1 / 4).bind(TENSORS)])
def test_what_octaves_leave_is_written_over_the_vector(codec, dtype):
    v = np.random.default_rng(3).normal(size=sum(TENSORS.sizes)).astype(dtype)
    frame = codec.encode(v, RNG)
    rest = v - codec.decode(frame, v.size)
    np.testing.assert_array_equal(codec.subtract(frame, v.copy()), rest)
