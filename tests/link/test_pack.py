"""Bit packing, and the quantiser for caches."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedpace.errors import ConfigError, FrameError
from fedpace.link import dequantise, quantise
from fedpace.link.codecs.quantise import levels
from fedpace.link.wire import pack


def reference_pack(codes, bits):
    text = "".join(format(c, f"0{bits}b") for c in codes)
    text += "0" * (-len(text) % 8)
    return bytes(int(text[j : j + 8], 2) for j in range(0, len(text), 8))


@given(st.integers(1, 16), st.data())
@settings(deadline=None, max_examples=200)
def test_packing_is_the_bits_written_out_and_unpacking_undoes_it(bits, data):
    codes = data.draw(st.lists(st.integers(0, 2**bits - 1), max_size=50))
    array = np.array(codes, np.uint8 if bits <= 8 else np.uint16)
    packed = pack.pack(array, bits)
    assert packed.tobytes() == reference_pack(codes, bits)
    np.testing.assert_array_equal(pack.unpack(packed, bits, len(codes)), codes)
    table = np.arange(2.0**bits) - 3
    np.testing.assert_array_equal(pack.look_up(packed, bits, len(codes), table), table[codes])


@pytest.mark.parametrize("bits", [1, 3, 4])
def test_wrong_length_and_dirty_padding_are_refused(bits):
    packed = pack.pack(np.zeros(9, np.uint8), bits)
    with pytest.raises(FrameError, match=f"9 codes of {bits} bits take"):
        pack.unpack(np.append(packed, np.uint8(0)), bits, 9)
    packed[-1] |= 1
    with pytest.raises(FrameError, match="bits after the last code are not zero"):
        pack.unpack(packed, bits, 9)


@pytest.mark.parametrize("bits", [2, 3, 4, 8, 12, 16])
def test_cache_codes_are_offset_by_the_number_of_levels(bits):
    """Codes 0..2L for -scale..scale; decode = (code - L) scale / L."""
    top = levels(bits)
    x = np.array([-2.0, 0.0, 2.0])
    packed, scales = quantise(x, bits, None)
    np.testing.assert_array_equal(pack.unpack(packed, bits, 3), [0, top, 2 * top])
    np.testing.assert_array_equal(dequantise(packed, scales, bits, 3), x)


def test_every_bucket_has_its_own_scale():
    x = np.concatenate([np.full(4, 1.0), np.full(4, 1e-3), np.zeros(3)])
    packed, scales = quantise(x, 4, None, bucket=4)
    np.testing.assert_array_equal(scales, [1, 1e-3, 0])
    np.testing.assert_array_equal(dequantise(packed, scales, 4, 11, bucket=4), x)
    packed, scales = quantise(x, 4, None, bucket=(8, 3))
    np.testing.assert_array_equal(scales, [1, 0])
    np.testing.assert_array_equal(
        dequantise(packed, scales, 4, 11, bucket=(8, 3)), np.r_[np.ones(4), np.zeros(7)]
    )


def test_rounding_is_unbiased_with_the_variance_of_its_fractions():
    """O13: averaged over u = (i + .5) / 10000 the value itself; mean squared errors .01, .01, 0, 0."""
    x, n = np.array([0.3, -0.7, 1.0, 0.0]), 10_000
    u = np.repeat((np.arange(n) + 0.5) / n, 4)
    packed, scales = quantise(np.tile(x, n), 3, u, bucket=4)
    decoded = dequantise(packed, scales, 3, 4 * n, bucket=4).reshape(n, 4)
    np.testing.assert_allclose(decoded.mean(0), x, atol=1e-12)
    np.testing.assert_allclose(np.square(decoded - x).mean(0), (0.01, 0.01, 0, 0), atol=1e-12)


def test_the_same_stream_gives_the_same_codes():
    x = np.random.default_rng(1).normal(size=5000).astype(np.float32)
    one, two = (quantise(x, 4, np.random.default_rng(7))[0] for _ in range(2))
    np.testing.assert_array_equal(one, two)
    assert one.size == 2500


@pytest.mark.parametrize("bits", [1, 17, 2.5, True])
def test_bits_outside_two_to_sixteen(bits):
    with pytest.raises(ConfigError, match="bits must be"):
        quantise(np.ones(3), bits, None)
