"""The frames of the transport: one binary WebSocket message each, big-endian, never fragmented.

    HELLO     1  magic, version, client, link ids, position    the client's first frame
    WELCOME   2  the same                                       the server's answer
    CHUNK     3  message number, offset, total, bytes           part of a message
    ACK       4  message number, offset                         received until here; gives credit back
    HEARTBEAT 5                                                 nothing else was sent for a while
    BYE       6  UTF-8 text                                     the link ends on purpose, and why

Without TLS every frame ends with the CRC-32 of what precedes it.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeAlias

from fedpace.errors import FrameError

MAGIC = b"fedpace\x00"
VERSION = 1
ID_BYTES = 16
NO_LINK = bytes(ID_BYTES)
LONGEST_REASON = 200

HELLO, WELCOME, CHUNK, ACK, HEARTBEAT, BYE = range(1, 7)
_GREETING = struct.Struct(f"!B8sBI{ID_BYTES}s{ID_BYTES}sQQ")
_CHUNK = struct.Struct("!BQQQ")
_ACK = struct.Struct("!BQQ")
_CRC = struct.Struct("!I")
CHUNK_HEADER_BYTES = _CHUNK.size
OVERHEAD_BYTES = _CHUNK.size + _CRC.size
HEARTBEAT_FRAME = bytes([HEARTBEAT])


class Place(NamedTuple):
    """A position in one direction of a link: the next byte is `offset` of message `number`."""

    number: int
    offset: int


START = Place(0, 0)


@dataclass(frozen=True, slots=True)
class Greeting:
    """The first frame in each direction: who speaks, which link it remembers, and where that stood."""

    client: int
    mine: bytes  # the sender's id of the link
    yours: bytes  # the id that the peer had given, or NO_LINK
    received: Place


@dataclass(frozen=True, slots=True)
class HelloFrame(Greeting):
    kind: ClassVar[int] = HELLO


@dataclass(frozen=True, slots=True)
class WelcomeFrame(Greeting):
    kind: ClassVar[int] = WELCOME


@dataclass(frozen=True, slots=True)
class ChunkFrame:
    at: Place
    total: int  # bytes of the whole message
    payload: memoryview

    @property
    def after(self) -> Place:
        """The place of the byte that follows."""
        return place_after(self.at, len(self.payload), self.total)


@dataclass(frozen=True, slots=True)
class AckFrame:
    received: Place


@dataclass(frozen=True, slots=True)
class HeartbeatFrame:
    pass


@dataclass(frozen=True, slots=True)
class ByeFrame:
    reason: str


AnyFrame: TypeAlias = HelloFrame | WelcomeFrame | ChunkFrame | AckFrame | HeartbeatFrame | ByeFrame


def place_after(at: Place, size: int, total: int) -> Place:
    """Where a chunk of `size` bytes at `at` leads to: further into the message, or to the next one."""
    end = at.offset + size
    return Place(at.number + 1, 0) if end == total else Place(at.number, end)


def greeting_bytes(greeting: HelloFrame | WelcomeFrame) -> bytes:
    names = (greeting.client, greeting.mine, greeting.yours)
    return _GREETING.pack(greeting.kind, MAGIC, VERSION, *names, *greeting.received)


def chunk_header(at: Place, total: int) -> bytes:
    return _CHUNK.pack(CHUNK, *at, total)


def ack_bytes(received: Place) -> bytes:
    return _ACK.pack(ACK, *received)


def bye_bytes(reason: str) -> bytes:
    return bytes([BYE]) + reason.encode()[:LONGEST_REASON]


def seal(frame: bytes) -> bytes:
    """The frame with its checksum, for connections that have none of their own."""
    return frame + _CRC.pack(zlib.crc32(frame))


def unseal(sealed: bytes) -> bytes:
    """The frame whose checksum holds; FrameError otherwise."""
    frame = sealed[: -_CRC.size]
    if len(sealed) <= _CRC.size or _CRC.pack(zlib.crc32(frame)) != sealed[-_CRC.size :]:
        raise FrameError("the checksum of a frame does not hold")
    return frame


def parse(frame: bytes) -> AnyFrame:
    """The frame of these bytes; FrameError for any others. Sizes are not judged here."""
    kind = frame[0] if frame else 0
    if kind == CHUNK:
        return _parse_chunk(frame)
    if kind == ACK:
        return AckFrame(Place(*_unpack(_ACK, frame)[1:]))
    if kind in (HELLO, WELCOME):
        return _parse_greeting(frame)
    if kind == HEARTBEAT and len(frame) == 1:
        return HeartbeatFrame()
    if kind == BYE and len(frame) <= 1 + LONGEST_REASON:
        return ByeFrame(frame[1:].decode(errors="replace"))
    raise FrameError(f"a frame of kind {kind} and {len(frame)} bytes")


def _unpack(layout: struct.Struct, frame: bytes) -> tuple[int, ...]:
    if len(frame) != layout.size:
        raise FrameError(f"a frame of kind {frame[0]} must have {layout.size} bytes; got {len(frame)}")
    return layout.unpack(frame)


def _parse_chunk(frame: bytes) -> ChunkFrame:
    if len(frame) < _CHUNK.size:
        raise FrameError(f"a chunk of {len(frame)} bytes has no header")
    _, number, offset, total = _CHUNK.unpack_from(frame)
    payload = memoryview(frame)[_CHUNK.size :]
    fits = offset + len(payload) <= total
    if not fits or (not payload and total > 0):
        raise FrameError(f"a chunk of {len(payload)} bytes at {offset} of {total}")
    return ChunkFrame(Place(number, offset), total, payload)


def _parse_greeting(frame: bytes) -> HelloFrame | WelcomeFrame:
    if len(frame) != _GREETING.size:
        raise FrameError(f"a greeting must have {_GREETING.size} bytes; got {len(frame)}")
    kind, magic, version, client, mine, yours, number, offset = _GREETING.unpack(frame)
    if magic != MAGIC:
        raise FrameError("a greeting without fedpace's magic bytes")
    if version != VERSION:
        raise FrameError(f"transport version {version}; this side speaks {VERSION}")
    made = HelloFrame if kind == HELLO else WelcomeFrame
    return made(client, mine, yours, Place(number, offset))
