"""The wire frame: 20 bytes of header, then the payload. `len(frame)` is the cost of a transfer.

    offset  type  field
    0       u8    version = 2
    1       u8    kind                       the table KINDS below
    2       u8    flags                      bit 0 ADD_PREV, 1 DIFF, 2 fp16, 3 stochastic,
                                             4-5 index codec, 6-7 value type (0 fp32, 1 bf16, 2 fp64)
    3       u8    aux                        Rice parameter, or bits of a quantiser
    4       u32   round
    8       u32   ref                        version of the held value the message builds on; 0 = none
    12      u32   payload length in bytes    little endian throughout
    16      u32   check word                 CRC-32 of the header, this word zero, and the payload

The word guards against accidents, any single flipped bit among them, not against attackers, who compute it as
easily as we do. So reading never trusts its input: whatever is wrong is a FrameError, raised before anything is
allocated.

Checking a long frame is a pass over memory, so each end does it once: in `parse`, and that is in every codec's
`decode`. A link uses `peek` to choose the decoder, and acts on the header only after decoding.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from fedpace.errors import FrameError, require
from fedpace.kernels.memory import HEAD_BYTES, framed
from fedpace.link.wire.crc import crc32, crc32_combine
from fedpace.vector import Vector

Part = bytes | npt.NDArray[np.generic]  # of a payload

FIELDS = struct.Struct("<BBBBIII")  # the header but for its check word
WORD = struct.Struct("<I")
HEADER_BYTES = HEAD_BYTES
VERSION = 2
U32_MAX = 2**32 - 1

ADD_PREV = 1 << 0  # the receiver also adds the value it held before this one
DIFF = 1 << 1  # the payload is added to what the receiver holds
FP16 = 1 << 2
STOCHASTIC = 1 << 3
INDEX_SHIFT, INDEX_MASK = 4, 3 << 4
TYPE_SHIFT, TYPE_MASK = 6, 3 << 6

_LINK = ADD_PREV | DIFF
_VALUES = FP16 | TYPE_MASK


class Kind(IntEnum):
    DENSE = 0
    SKIP = 1
    SPARSE = 2
    SIGN = 3
    QUANT = 4
    SET_SPARSE = 5
    RESYNC = 6
    ACK = 7
    OCTAVES = 8
    CODED = 9


# kind -> flags it may carry; the only registry of the project
KINDS = {
    Kind.DENSE: _LINK | _VALUES,
    Kind.SKIP: 0,
    Kind.SPARSE: _LINK | _VALUES | INDEX_MASK,
    Kind.SIGN: _LINK | _VALUES,
    Kind.QUANT: _LINK | _VALUES | STOCHASTIC,
    Kind.SET_SPARSE: _VALUES | INDEX_MASK,
    Kind.RESYNC: 0,
    Kind.ACK: 0,
    Kind.OCTAVES: _LINK | _VALUES | INDEX_MASK,
    Kind.CODED: _LINK | _VALUES | STOCHASTIC,
}
_BY_NUMBER = {int(kind): kind for kind in KINDS}
_NO_WORD = bytes(WORD.size)
EMPTY = (Kind.SKIP, Kind.RESYNC, Kind.ACK)
USES_AUX = (Kind.SPARSE, Kind.SET_SPARSE, Kind.QUANT, Kind.OCTAVES)


class ResyncError(FrameError):
    """The message builds on a value the receiver does not hold: ask for a full one."""


class NonFiniteError(FrameError):
    """NaN or infinity: refused by the sender, and by the receiver if it comes all the same."""


class Phantom(bytes):
    """A SKIP for a value that was never sent: the literal reading of lazy rules, in simulation only.

    The value travels beside the bytes. Over a real link the bytes arrive alone; they name no held value
    (ref = 0), so the receiver refuses them.
    """

    value: Vector

    def __new__(cls, frame: bytes, value: Vector) -> Self:
        phantom = super().__new__(cls, frame)
        phantom.value = value
        return phantom

    def __reduce__(self) -> tuple[type[Phantom], tuple[bytes, Vector]]:
        return Phantom, (bytes(self), self.value)


class Header(NamedTuple):
    kind: Kind
    flags: int = 0
    aux: int = 0
    round: int = 0
    ref: int = 0
    length: int = 0  # payload bytes

    @property
    def index_codec(self) -> int:
        return (self.flags & INDEX_MASK) >> INDEX_SHIFT


def build(kind: Kind, *payload: Part, flags: int = 0, aux: int = 0, round: int = 0, ref: int = 0) -> bytes:
    """One frame, in one copy of the payload's contiguous parts; in none where a long vector has room for the header."""
    parts = [memoryview(part) if isinstance(part, bytes) else part.data for part in payload]
    length = sum(part.nbytes for part in parts)
    require(length <= U32_MAX, "payload bytes", length, f"<= {U32_MAX}")
    fields = FIELDS.pack(VERSION, kind, flags, aux, round, ref, length)
    head = fields + WORD.pack(_word(fields, *parts))
    own = framed(payload[0], head) if len(payload) == 1 and isinstance(payload[0], np.ndarray) else None
    return b"".join((head, *parts)) if own is None else own


def _word(fields: bytes, *payload: memoryview) -> int:
    """The check word of a header and its payload."""
    word = crc32(fields + _NO_WORD)
    for part in payload:
        word = crc32(part, word)
    return word


def parse(frame: bytes) -> Header:
    """The header of a frame that is as it was built, its length, kind and flags in order."""
    check(frame)
    return _header(frame)


def peek(frame: bytes) -> Header:
    """The same without reading the payload: for a frame that was checked, or that a codec will check."""
    _refuse_foreign(frame)
    try:
        return _header(frame)
    except FrameError:
        check(frame)  # damage is the better explanation
        raise


def check(frame: bytes) -> None:
    """Refuse a frame whose bytes are not those it was built from."""
    _refuse_foreign(frame)
    (sent,) = WORD.unpack_from(frame, FIELDS.size)
    word = _word(frame[: FIELDS.size], memoryview(frame)[HEADER_BYTES:])
    if word != sent:
        raise FrameError(f"a frame was damaged: its check word must be {word:#010x}; got {sent:#010x}")


def _refuse_foreign(frame: bytes) -> None:
    """The version first: frames of version 1 were shorter."""
    if frame and frame[0] != VERSION:
        older = ", of an older fedpace: those had no check word" if frame[0] == 1 else ""
        raise FrameError(f"frame version must be {VERSION}; got {frame[0]}{older}")
    if len(frame) < HEADER_BYTES:
        raise FrameError(f"a frame has at least {HEADER_BYTES} bytes; got {len(frame)}")


def _header(frame: bytes) -> Header:
    _, number, flags, aux, round, ref, length = FIELDS.unpack_from(frame)
    kind = _BY_NUMBER.get(number)
    if kind is None:
        raise FrameError(f"frame kind must be one of 0..{max(KINDS)}; got {number}")
    header = Header(kind, flags, aux, round, ref, length)
    _check(header, len(frame) - HEADER_BYTES)
    return header


def _check(header: Header, payload_bytes: int) -> None:
    kind, flags = header.kind, header.flags
    if header.length != payload_bytes:
        raise FrameError(f"{kind.name}: header says {header.length} payload bytes; got {payload_bytes}")
    if flags & ~KINDS[kind]:
        raise FrameError(f"{kind.name}: flags {flags:#04x} are not among {KINDS[kind]:#04x}")
    if flags & TYPE_MASK == TYPE_MASK or (flags & FP16 and flags & TYPE_MASK):
        raise FrameError(f"{kind.name}: flags {flags:#04x} name no value type")
    if kind in EMPTY and header.length:
        raise FrameError(f"{kind.name} carries nothing; got {header.length} bytes")
    if header.aux and kind not in USES_AUX:
        raise FrameError(f"{kind.name}: aux must be 0; got {header.aux}")


def stamp(frame: bytes, *, round: int, ref: int = 0, flags: int = 0) -> bytes:
    """The same frame with round and ref filled in and `flags` set, in one copy.

    A CRC is linear: what a new header does to the word follows from both headers and the payload's length. So the
    payload is not read, and a damaged frame does not become whole.
    """
    before, payload = frame[: FIELDS.size], memoryview(frame)[HEADER_BYTES:]
    version, kind, old_flags, aux, _, _, length = FIELDS.unpack(before)
    after = FIELDS.pack(version, kind, old_flags | flags, aux, round, ref, length)
    (old,) = WORD.unpack_from(frame, FIELDS.size)
    word = crc32_combine(_word(before) ^ _word(after), old, payload.nbytes)
    return b"".join((after, WORD.pack(word), payload))


def sealed(frame: bytes) -> bytes:
    """These bytes under the word that fits them: for tests of what comes after the check."""
    if len(frame) < HEADER_BYTES:
        return frame
    fields, payload = frame[: FIELDS.size], frame[HEADER_BYTES:]
    return fields + WORD.pack(_word(fields, memoryview(payload))) + payload


def expect(frame: bytes, *kinds: Kind) -> Header:
    """The header of a frame that must be of one of these kinds."""
    header = parse(frame)
    if header.kind not in kinds:
        raise FrameError(f"expected {' or '.join(kind.name for kind in kinds)}; got {header.kind.name}")
    return header


def expect_length(header: Header, payload_bytes: int) -> None:
    if header.length != payload_bytes:
        raise FrameError(f"{header.kind.name}: expected {payload_bytes} payload bytes; got {header.length}")


def refuse_flags(header: Header, flags: int) -> None:
    """For links that use none of `flags`."""
    if header.flags & flags:
        raise FrameError(f"{header.kind.name}: flags {header.flags & flags:#04x} mean nothing on this link")


def refuse_link_flags(frame: bytes) -> None:
    """For links whose frames build on nothing; one byte tells, in a frame that was decoded."""
    if len(frame) < HEADER_BYTES or frame[2] & _LINK:
        refuse_flags(peek(frame), _LINK)


def require_flags(header: Header, flags: int) -> None:
    """For links whose every frame carries exactly these of the link's flags."""
    if header.flags & _LINK != flags:
        raise FrameError(
            f"{header.kind.name}: link flags must be {flags:#04x}; got {header.flags & _LINK:#04x}"
        )
