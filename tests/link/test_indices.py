"""Index blocks: exact bytes, exact sizes, and only canonical ones accepted."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedpace.errors import ConfigError, FrameError
from fedpace.link import TopK
from fedpace.link.wire import indices

# O15: d, k, varint bytes, (Rice p, bytes) of the support {7919 j mod d}
SIZES = [
    (50_890, 6_362, 6_362, (2, 3_760)),
    (50_890, 398, 437, (6, 403)),
    (21_840, 2_730, 2_730, (2, 1_433)),
    (21_840, 171, 262, (6, 183)),
]


def gaps_of(at):
    return np.diff(at, prepend=-1) - 1


def reference_rice(gaps, p):
    """The bits written out as text."""
    bits = "".join("1" * (g >> p) + "0" + (format(g & ((1 << p) - 1), f"0{p}b") if p else "") for g in gaps)
    bits += "0" * (-len(bits) % 8)
    return bytes(int(bits[j : j + 8], 2) for j in range(0, len(bits), 8))


def test_rice_writes_these_bits():
    """O14: gaps 1, 0, 4, 7 at p = 2 are 00100010001011, at p = 1 thirteen bits."""
    gaps = gaps_of(np.array([1, 2, 7, 15]))
    np.testing.assert_array_equal(gaps, [1, 0, 4, 7])
    assert indices.write_rice(gaps, 2).tobytes().hex() == "222c"
    assert (indices.rice_bits(gaps, 2), indices.rice_bits(gaps, 1)) == (14, 13)
    assert indices.write_rice(gaps, 1).tobytes() == int("0100110011101000", 2).to_bytes(2, "big")


def test_varint_is_leb128():
    """O14: 300 is ac 02."""
    assert indices.write_varint(np.array([300]), np.array([300]), 301).tobytes().hex() == "ac02"


@pytest.mark.parametrize("d, k, varint, rice", SIZES)
def test_sizes_of_a_support_everyone_can_build(d, k, varint, rice):
    gaps = gaps_of(np.sort(7919 * np.arange(k) % d))
    p, length = rice
    assert indices.usual_rice(k, d) == p
    assert (indices.varint_bytes(gaps), indices.write_rice(gaps, p).size) == (varint, length)


@pytest.mark.parametrize("ratio, p", [(1 / 8, 2), (1 / 128, 6)])
def test_the_usual_rice_parameter(ratio, p):
    assert indices.usual_rice(math.ceil(ratio * 50_890), 50_890) == p


@given(st.data())
@settings(deadline=None, max_examples=150)
def test_every_encoding_reads_back(data):
    size = data.draw(st.integers(1, 400) | st.integers(1, 100_000))
    at = np.array(sorted(data.draw(st.sets(st.integers(0, size - 1), max_size=60))), np.int64)
    name = data.draw(st.sampled_from(("auto", *indices.NAMES)))
    block, codec, aux = indices.write(at, size, name)
    np.testing.assert_array_equal(indices.read(block, codec, aux, at.size, size), at)


@given(st.lists(st.integers(0, 5000), max_size=40), st.integers(0, 12))
@settings(deadline=None)
def test_rice_is_the_bits_written_out(gaps, p):
    assert indices.write_rice(np.array(gaps, np.int64), p).tobytes() == reference_rice(gaps, p)


RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize(
    "at, size, best",
    [
        (np.arange(0, 640, 2), 640, "bitmask"),
        (np.sort(RANDOM.choice(50_890, 6_362, replace=False)), 50_890, "rice"),
        (np.sort(RANDOM.choice(50_890, 398, replace=False)), 50_890, "rice"),
        (np.append(np.arange(100), 60_000), 60_001, "varint"),
        (np.array([2**30]), 2**30 + 1, "u32"),
    ],
)
def test_the_smallest_block_wins(at, size, best):
    gaps = gaps_of(at)
    p = indices.best_rice(gaps, size)
    lengths = (
        4 * at.size,
        (size + 7) // 8,
        indices.varint_bytes(gaps),
        (indices.rice_bits(gaps, p) + 7) // 8,
    )
    block, codec, _ = indices.write(at, size)
    assert indices.NAMES[codec] == best and block.size == min(lengths)


def test_nothing_to_send_takes_no_bytes():
    block, codec, _ = indices.write(np.empty(0, np.int64), 1000)
    assert (block.size, indices.NAMES[codec]) == (0, "u32")


U32, BITMASK, VARINT, RICE = range(4)


def block(*values):
    return np.array(values, np.uint8)


@pytest.mark.parametrize(
    "raw, codec, aux, count, why",
    [
        (block(1, 0, 0), U32, 0, 1, "take 4 bytes"),
        (block(1, 0, 0, 0, 1, 0, 0, 0), U32, 0, 2, "ascend strictly"),
        (block(10, 0, 0, 0), U32, 0, 1, "stay below 10"),
        (block(1, 0, 0, 0), U32, 3, 1, "aux 0"),
        (block(0x80), BITMASK, 0, 1, "takes 2 bytes"),
        (block(0x80, 0x00), BITMASK, 0, 2, "must mark 2 of 10"),
        (block(0x00, 0x20), BITMASK, 0, 1, "must mark 1 of 10"),
        (block(0x80), VARINT, 0, 1, "shortest varint"),
        (block(0x81, 0x00), VARINT, 0, 1, "shortest varint"),
        (block(1, 1), VARINT, 0, 1, "shortest varint"),
        (block(10), VARINT, 0, 1, "shortest varint"),
        (block(0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01), VARINT, 0, 1, "shortest varint"),
        (block(), VARINT, 0, 1, "shortest varint"),
        (block(0xFF), RICE, 0, 1, "Rice gaps"),
        (block(0xFF, 0xFF, 0xE0), RICE, 0, 1, "Rice gaps"),
        (block(0x40), RICE, 5, 1, "Rice gaps"),
        (block(0x01), RICE, 0, 1, "Rice gaps"),
        (block(0x00, 0x00), RICE, 0, 1, "Rice gaps"),
        (block(0x00), RICE, 32, 1, "at most 31"),
        (block(0x00), RICE, 9, 1, "Rice gaps"),
        (block(), U32, 0, 11, "at most 10 indices"),
    ],
)
def test_blocks_that_no_encoder_writes_are_refused(raw, codec, aux, count, why):
    with pytest.raises(FrameError, match=why):
        indices.read(raw, codec, aux, count, 10)


def test_unknown_index_encoding():
    with pytest.raises(
        ConfigError, match="TopK.index must be 'auto' or one of u32, bitmask, varint, rice; got 'huffman'"
    ):
        TopK(0.1, index="huffman")
