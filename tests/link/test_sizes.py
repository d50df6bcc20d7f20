"""Frames are as long as the tables say, and top-k frames as short as they can be."""

import math

import numpy as np
import pytest

from fedpace.link import Dense, Quantize, ScaledSign, TopK

RNG = np.random.default_rng(5)

# d; whole messages: dense fp32, sign, 8 bits, 4 bits; per ratio: k, u32 indices, bitmask
TABLE = [
    (50_890, (203_580, 6_386, 50_914, 25_469), {8: (6_362, 50_920, 31_834), 128: (398, 3_208, 7_978)}),
    (21_840, (87_380, 2_754, 21_864, 10_944), {8: (2_730, 21_864, 13_674), 128: (171, 1_392, 3_438)}),
    (
        199_210,
        (796_860, 24_926, 199_234, 99_629),
        {8: (24_902, 199_240, 124_534), 128: (1_557, 12_480, 31_154)},
    ),
    (
        1_663_370,
        (6_653_500, 207_946, 1_663_394, 831_709),
        {8: (207_922, 1_663_400, 1_039_634), 128: (12_996, 103_992, 259_930)},
    ),
]


def bound_bytes(d, k, value_bits=32):
    """log2 C(d, k) + k b bits."""
    bits = (math.lgamma(d + 1) - math.lgamma(k + 1) - math.lgamma(d - k + 1)) / math.log(2)
    return (bits + k * value_bits) / 8


@pytest.mark.parametrize("d, whole, sparse", TABLE)
def test_messages_are_as_long_as_the_table_says(d, whole, sparse):
    v = RNG.normal(size=d).astype(np.float32)
    codecs = (Dense(), ScaledSign(), Quantize(8), Quantize(4))
    assert tuple(len(codec.encode(v, RNG)) for codec in codecs) == whole
    for ratio, (k, u32, bitmask) in sparse.items():
        lengths = [len(TopK(1 / ratio, index=index).encode(v, RNG)) for index in ("u32", "bitmask")]
        assert TopK(1 / ratio).counts(d) == (k,) and lengths == [u32, bitmask]


@pytest.mark.parametrize("d", [50_890, 1_663_370])
@pytest.mark.parametrize("ratio, p", [(8, 2), (128, 6)])
def test_top_k_frames_are_within_one_percent_of_the_information_bound(d, ratio, p):
    v = RNG.normal(size=d).astype(np.float32)
    codec = TopK(1 / ratio)
    frame = codec.encode(v, RNG)
    bound = bound_bytes(d, codec.counts(d)[0])
    assert bound <= len(frame) - 20 <= 1.01 * bound
    assert frame[3] == p and frame[2] >> 4 & 3 == 3, "Rice with the usual parameter"


@pytest.mark.parametrize(
    "d, k, bound", [(50_890, 6_362, 28_905.1), (50_890, 398, 2_011.0), (1_663_370, 12_996, 65_688.8)]
)
def test_the_bound_of_the_table(d, k, bound):
    assert bound_bytes(d, k) == pytest.approx(bound, abs=0.06)


@pytest.mark.parametrize("ratio, bits", [(8, 4.4165), (128, 8.5338)])
def test_rice_takes_its_expected_number_of_bits_per_index(ratio, bits):
    """p + 1 + z / (1 - z), z = (1 - rho)^(2^p), within the 1 % that random supports vary."""
    d = 1_663_370
    v = RNG.normal(size=d).astype(np.float32)
    codec = TopK(1 / ratio, index="rice")
    k = codec.counts(d)[0]
    block = len(codec.encode(v, RNG)) - 20 - 4 - 4 * k
    assert 8 * block / k == pytest.approx(bits, rel=0.01)
