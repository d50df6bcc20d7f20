"""The wire frame: what it looks like, and what is refused."""

import importlib.util
import pickle
import struct
import sys
import zlib

import numpy as np
import pytest

from fedpace.errors import ConfigError, FrameError
from fedpace.link import Dense, Phantom, Quantize, ScaledSign, TopK, describe
from fedpace.link.wire import frame as wire
from fedpace.link.wire.frame import Kind

RNG = np.random.default_rng(0)
V = np.array([3.0, -3, 1, 0, 2, -2])


def header(version=2, kind=1, flags=0, aux=0, round=0, ref=0, length=0, payload=b""):
    """A frame as these fields say, however wrong, under the check word that fits it."""
    return wire.sealed(struct.pack("<BBBBIIII", version, kind, flags, aux, round, ref, length, 0) + payload)


def test_a_skip_is_these_twenty_bytes():
    """O14: SKIP with t = 7, ref = 3."""
    frame = wire.build(Kind.SKIP, round=7, ref=3)
    assert frame.hex() == "02010000 07000000 03000000 00000000 dc479e98".replace(" ", "")


def test_parsing_undoes_building():
    frame = wire.build(Kind.QUANT, b"abc", np.array([1, 2], np.uint16), flags=wire.STOCHASTIC, aux=5)
    parsed = wire.parse(wire.stamp(frame, round=9, ref=4, flags=wire.DIFF))
    assert parsed == wire.Header(Kind.QUANT, wire.STOCHASTIC | wire.DIFF, 5, 9, 4, 7)
    assert frame[20:] == b"abc\1\0\2\0"


@pytest.mark.parametrize("size", [0, 1, 7, 5000])
def test_the_check_word_is_the_crc_32_of_zlib(size):
    """Over the header with the word zero, and the payload in all its parts."""
    payload = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    frame = wire.build(Kind.QUANT, payload[: size // 3], payload[size // 3 :].tobytes(), aux=7)
    for each in (frame, wire.stamp(frame, round=2**31, ref=9, flags=wire.DIFF), wire.sealed(frame + b"x")):
        assert int.from_bytes(each[16:20], "little") == zlib.crc32(each[:16] + bytes(4) + each[20:])


def test_stamping_a_damaged_frame_does_not_make_it_whole():
    frame = Dense().encode(V, RNG)
    stamped = wire.stamp(frame[:-1] + b"\1", round=3)
    with pytest.raises(FrameError, match="a frame was damaged: its check word must be 0x"):
        wire.parse(stamped)


@pytest.mark.parametrize("ours", ["isal", "zlib"])
def test_both_libraries_give_the_same_word(ours, monkeypatch):
    """Where isal cannot be imported, zlib takes its place."""
    if ours == "zlib":
        monkeypatch.setitem(sys.modules, "isal.isal_zlib", None)
    else:
        pytest.importorskip("isal")
    spec = importlib.util.find_spec("fedpace.link.wire.crc")
    crc = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(crc)
    assert (crc.crc32 is zlib.crc32) == (ours == "zlib")
    for first, second in ((b"", b"abc"), (b"abc", b""), (b"header", bytes(range(256)) * 40)):
        whole = zlib.crc32(first + second)
        assert crc.crc32(second, crc.crc32(first)) == whole
        assert crc.crc32_combine(zlib.crc32(first), zlib.crc32(second), len(second)) == whole


def test_the_index_codec_lies_in_bits_four_and_five():
    assert wire.Header(Kind.SPARSE, flags=0b0011_0000).index_codec == 3


@pytest.mark.parametrize(
    "bad, why",
    [
        (b"", "at least 20 bytes"),
        (header()[:-1], "at least 20 bytes"),
        (header(version=0), "version must be 2; got 0"),
        (header(version=3), "version must be 2; got 3"),
        (b"\1\1" + bytes(14), "version must be 2; got 1, of an older fedpace: those had no check word"),
        (header(kind=10), "kind must be"),
        (header(kind=255), "kind must be"),
        (header(length=1), "header says 1 payload bytes; got 0"),
        (header(length=2**32 - 1), "header says 4294967295 payload bytes; got 0"),
        (header(payload=b"x"), "header says 0 payload bytes; got 1"),
        (header(length=1, payload=b"x"), "carries nothing"),
        (header(aux=1), "aux must be 0"),
        (header(kind=0, aux=1), "aux must be 0"),
        (header(flags=wire.ADD_PREV), "flags 0x01"),
        (header(kind=0, flags=wire.STOCHASTIC), "flags 0x08"),
        (header(kind=0, flags=1 << 4), "flags 0x10"),
        (header(kind=5, flags=wire.DIFF), "flags 0x02"),
        (header(kind=0, flags=3 << 6), "name no value type"),
        (header(kind=0, flags=wire.FP16 | 1 << 6), "name no value type"),
    ],
)
def test_a_malformed_header_is_refused(bad, why):
    for read in (wire.parse, wire.peek):
        with pytest.raises(FrameError, match=why):
            read(bad)


def test_damage_is_suspected_before_anything_else_in_a_header():
    for bad in (header(kind=10), header(length=1), header(aux=1)):
        for read in (wire.parse, wire.peek):
            with pytest.raises(FrameError, match="damaged: its check word must be 0x.{8}; got 0x00000000"):
                read(bad[:16] + bytes(4) + bad[20:])


def test_only_expected_kinds_lengths_and_flags_pass():
    frame = wire.build(Kind.SKIP)
    with pytest.raises(FrameError, match="expected DENSE or SPARSE; got SKIP"):
        wire.expect(frame, Kind.DENSE, Kind.SPARSE)
    assert wire.expect(frame, Kind.SKIP).kind is Kind.SKIP
    with pytest.raises(FrameError, match="expected 3 payload bytes; got 0"):
        wire.expect_length(wire.parse(frame), 3)
    dense = wire.parse(wire.build(Kind.DENSE, flags=wire.DIFF))
    with pytest.raises(FrameError, match="mean nothing"):
        wire.refuse_flags(dense, wire.DIFF)
    wire.require_flags(dense, wire.DIFF)
    with pytest.raises(FrameError, match="link flags must be 0x00; got 0x02"):
        wire.require_flags(dense, 0)


class Enormous:
    """Claims to be larger than a frame can be, without taking the memory."""

    data = memoryview(np.broadcast_to(np.uint8(0), (2**32,)))


def test_a_payload_that_no_header_can_describe_is_refused():
    with pytest.raises(ConfigError, match="payload bytes must be <= 4294967295"):
        wire.build(Kind.DENSE, Enormous())


def test_a_phantom_keeps_its_value_only_beside_the_bytes():
    phantom = Phantom(wire.build(Kind.SKIP, round=5), np.array([1.5]))
    assert len(phantom) == 20 and phantom == wire.build(Kind.SKIP, round=5)
    copy = pickle.loads(pickle.dumps(phantom))
    assert isinstance(copy, Phantom) and copy == phantom and copy.value == [1.5]
    assert not isinstance(bytes(phantom), Phantom)


@pytest.mark.parametrize(
    "frame, value_bits, index_bits, skipped",
    [
        (Dense().encode(V, RNG), 6 * 32, 0, False),
        (Dense("fp16").encode(V, RNG), 6 * 32, 0, False),
        (TopK(1 / 2).encode(V, RNG), 3 * 32, 3 * 3, False),
        (ScaledSign().encode(V, RNG), 6 + 32, 0, False),
        (Quantize(4).encode(V, RNG), 4 * 6 + 32, 0, False),
        (wire.build(Kind.SKIP), 0, 0, True),
        (wire.build(Kind.ACK), 0, 0, False),
    ],
)
def test_nominal_bits_are_those_papers_count(frame, value_bits, index_bits, skipped):
    """32 bits per number, ceil(log2 d) per position, d + 32 for signs, nothing for a skip."""
    info = describe(frame, V.size)
    assert (info.value_bits, info.index_bits, info.skipped) == (value_bits, index_bits, skipped)
    assert info.payload_bytes + info.header_bytes == len(frame) and not info.phantom


def test_a_described_phantom_says_so():
    assert describe(Phantom(wire.build(Kind.SKIP), V), V.size).phantom


def test_a_sparse_frame_without_its_count_has_no_description():
    with pytest.raises(FrameError, match="the count is missing"):
        describe(wire.build(Kind.SPARSE, b"\1\0"), 6)
