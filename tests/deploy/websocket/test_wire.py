from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedpace.deploy.websocket.wire import (
    HEARTBEAT_FRAME,
    LONGEST_REASON,
    MAGIC,
    AckFrame,
    ByeFrame,
    ChunkFrame,
    HeartbeatFrame,
    HelloFrame,
    Place,
    WelcomeFrame,
    ack_bytes,
    bye_bytes,
    chunk_header,
    greeting_bytes,
    parse,
    seal,
    unseal,
)
from fedpace.errors import FrameError

NUMBERS = st.integers(0, 2**64 - 1)
IDS = st.binary(min_size=16, max_size=16)


@given(st.sampled_from([HelloFrame, WelcomeFrame]), st.integers(0, 2**32 - 1), IDS, IDS, NUMBERS, NUMBERS)
def test_greetings_come_back(
    kind: type[HelloFrame] | type[WelcomeFrame],
    client: int,
    mine: bytes,
    yours: bytes,
    number: int,
    offset: int,
) -> None:
    greeting = kind(client, mine, yours, Place(number, offset))
    assert parse(greeting_bytes(greeting)) == greeting


@given(NUMBERS, NUMBERS)
def test_acknowledgements_come_back(number: int, offset: int) -> None:
    assert parse(ack_bytes(Place(number, offset))) == AckFrame(Place(number, offset))


def test_the_bytes_of_the_wire() -> None:
    """As docs/deploy-wire.md writes them down."""
    hello = HelloFrame(7, b"m" * 16, b"y" * 16, Place(1, 2))
    assert greeting_bytes(hello) == (
        b"\x01fedpace\x00\x01"
        + b"\x00\x00\x00\x07"
        + b"m" * 16
        + b"y" * 16
        + b"\x00" * 7
        + b"\x01"
        + b"\x00" * 7
        + b"\x02"
    )
    assert chunk_header(Place(1, 2), 3) == b"\x03" + b"".join(n.to_bytes(8, "big") for n in (1, 2, 3))
    assert ack_bytes(Place(1, 2)) == b"\x04" + b"".join(n.to_bytes(8, "big") for n in (1, 2))
    assert HEARTBEAT_FRAME == b"\x05" and parse(b"\x05") == HeartbeatFrame()
    assert bye_bytes("end") == b"\x06end" and parse(b"\x06end") == ByeFrame("end")
    assert seal(b"123456789") == b"123456789" + bytes.fromhex("cbf43926")  # the check value of CRC-32


def test_a_long_reason_is_cut() -> None:
    frame = parse(bye_bytes("é" * 500))
    assert isinstance(frame, ByeFrame) and len(frame.reason) == LONGEST_REASON // 2


def test_a_chunk_is_a_view_of_the_frame() -> None:
    frame = parse(chunk_header(Place(0, 2), 5) + b"abc")
    assert isinstance(frame, ChunkFrame)
    assert bytes(frame.payload) == b"abc" and frame.after == Place(1, 0)


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\x00",
        b"\x07",
        b"\x05\x00",
        b"\x06" + bytes(LONGEST_REASON + 1),
        ack_bytes(Place(0, 0))[:-1],
        ack_bytes(Place(0, 0)) + b"\x00",
        chunk_header(Place(0, 0), 1)[:-1],
        chunk_header(Place(0, 0), 1),  # empty, yet the message is not
        chunk_header(Place(0, 0), 1) + b"ab",  # beyond its end
        chunk_header(Place(0, 2**64 - 1), 1) + b"a",
        greeting_bytes(HelloFrame(0, bytes(16), bytes(16), Place(0, 0)))[:-1],
        greeting_bytes(HelloFrame(0, bytes(16), bytes(16), Place(0, 0))).replace(MAGIC, b"faddish\x00"),
        greeting_bytes(HelloFrame(0, bytes(16), bytes(16), Place(0, 0))).replace(
            MAGIC + b"\x01", MAGIC + b"\x02"
        ),
    ],
)
def test_anything_else_is_no_frame(frame: bytes) -> None:
    with pytest.raises(FrameError):
        parse(frame)


@given(st.binary(min_size=1, max_size=60), st.data())
def test_one_flipped_bit_breaks_the_seal(frame: bytes, data: st.DataObject) -> None:
    sealed = bytearray(seal(frame))
    assert unseal(bytes(sealed)) == frame
    sealed[data.draw(st.integers(0, len(sealed) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(FrameError, match="checksum"):
        unseal(bytes(sealed))


@pytest.mark.parametrize("length", range(5))
def test_too_short_to_be_sealed(length: int) -> None:
    with pytest.raises(FrameError, match="checksum"):
        unseal(bytes(length))
