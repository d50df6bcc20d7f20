"""Frames are canonical: whoever reads one knows its bytes. No two frames have the same fields."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedpace.errors import FrameError
from fedpace.link import Dense, EntropyCoded, Octaves, Quantize, RandK, ScaledSign, TopK
from fedpace.link.wire import frame as wire
from fedpace.link.wire.frame import Kind
from fuzz.fields import Fields, build, parse
from fuzz.readers import LAYOUT, SIZES, frames

CORPUS = sorted((Path(__file__).parent / "corpus").iterdir())
SHAPES = (*((size,) for size in (*SIZES, 2, 7, 8, 9, 16, 129)), tuple(LAYOUT.sizes))
VALID = list(dict.fromkeys(frames()))
WHATEVER = settings(deadline=None, max_examples=400, suppress_health_check=[HealthCheck.too_slow])


def readings(frame: bytes) -> Iterator[tuple[tuple[int, ...], Fields]]:
    """The fields of a frame for every vector that it may be about."""
    for sizes in SHAPES:
        try:
            yield sizes, parse(frame, sizes)
        except FrameError:
            continue


def assert_canonical(frame: bytes) -> int:
    """How many readings there are; each of them gives back the same bytes."""
    found = list(readings(frame))
    for sizes, fields in found:
        assert build(fields, sizes) == frame
    return len(found)


def altered(frame: bytes, payload: bytes, flags: int = 0, aux: int = 0) -> bytes:
    """A frame with a proper header of the same kind around another payload."""
    header = wire.parse(frame)
    return wire.build(
        header.kind,
        payload,
        flags=header.flags ^ flags,
        aux=header.aux ^ aux,
        round=header.round,
        ref=header.ref,
    )


@pytest.mark.parametrize("kind", Kind)
def test_every_valid_frame(kind: Kind) -> None:
    own = [frame for frame in VALID if wire.parse(frame).kind is kind]
    assert all(assert_canonical(frame) for frame in own)
    assert own or kind in (Kind.RESYNC, Kind.ACK)


def test_the_kept_corpus() -> None:
    """Whatever in it is still a frame, as it is and under a header of this version."""
    read = 0
    for path in CORPUS:
        content = path.read_bytes()
        read += assert_canonical(content)
        for frame in VALID[:: len(VALID) // 20]:
            read += assert_canonical(altered(frame, content[wire.HEADER_BYTES :]))
    assert read > 0


def test_every_bit_of_short_payloads() -> None:
    """Padding, signs of zero, lengths of codes: a frame with one bit changed is another frame, or none."""
    read = refused = 0
    for frame in (frame for frame in VALID if len(frame) <= wire.HEADER_BYTES + 24):
        payload = frame[wire.HEADER_BYTES :]
        for bit in range(8 * len(payload)):
            other = (int.from_bytes(payload, "little") ^ 1 << bit).to_bytes(len(payload), "little")
            found = assert_canonical(altered(frame, other))
            read, refused = read + found, refused + (found == 0)
    assert read > 1000 and refused > 1000


@given(st.sampled_from(VALID), st.data())
@WHATEVER
def test_frames_with_a_few_bytes_of_the_payload_changed(frame: bytes, data: st.DataObject) -> None:
    payload = bytearray(frame[wire.HEADER_BYTES :])
    for _ in range(data.draw(st.integers(0, 3)) if payload else 0):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    flags, aux = data.draw(st.sampled_from([0, 0, 16, 32, 48])), data.draw(st.integers(0, 7))
    assert_canonical(altered(frame, bytes(payload), flags, aux))


@given(st.integers(0, max(Kind)), st.integers(0, 255), st.integers(0, 40), st.binary(max_size=60))
@WHATEVER
def test_any_payload_under_any_header(kind: int, flags: int, aux: int, payload: bytes) -> None:
    assert_canonical(wire.build(Kind(kind), payload, flags=flags, aux=aux))


@pytest.mark.parametrize("size", [1, 2, 7, 8, 9, 64, 65, 1000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_codecs_write_is_read_back_to_the_field(size: int, dtype: type) -> None:
    """Codecs of every kind, on vectors with zeros, tiny, huge and equal entries."""
    rng = np.random.default_rng(size)
    codecs = [
        Dense(),
        Dense("fp16"),
        Dense("bf16"),
        ScaledSign(),
        Octaves(0.3),
        Octaves(0.5, index="rice"),
        EntropyCoded(0.3),
        EntropyCoded(4.0, dither=False),
        Quantize(2),
        Quantize(4),
        Quantize(7),
        Quantize(16),
    ]
    codecs += [TopK(0.3, index=index) for index in ("auto", "u32", "bitmask", "varint", "rice")] + [
        RandK(0.5)
    ]
    vectors = [np.zeros(size), np.ones(size), rng.normal(size=size), 1e-30 * rng.normal(size=size)]
    for v in vectors:
        for codec in codecs:
            frame = codec.encode(v.astype(dtype), rng)
            assert build(parse(frame, (size,)), (size,)) == frame
