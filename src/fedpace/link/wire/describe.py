"""The cost of a frame, in bytes and in the nominal bits that papers count."""

from __future__ import annotations

from typing import NamedTuple

from fedpace.errors import FrameError
from fedpace.link.wire import frame as wire
from fedpace.link.wire.frame import Kind, Phantom
from fedpace.link.wire.sparse import COUNT


class FrameInfo(NamedTuple):
    """`payload_bytes + header_bytes == len(frame)`; the nominal bits are for comparison with papers only."""

    kind: Kind
    payload_bytes: int
    header_bytes: int
    value_bits: (
        int  # 32 per number sent; one per sign, three with an octave, b per quantised entry, the code's own
    )
    index_bits: int  # ceil(log2 d) per position
    skipped: bool
    phantom: bool  # the receiver uses a value that never crossed the link


def describe(frame: bytes, size: int, groups: int = 1) -> FrameInfo:
    """For a frame about a vector of `size` entries in so many `groups` (1: flat); damaged or not, it was sent."""
    header = wire.peek(frame)
    bits, index_bits = 0, 0
    match header.kind:
        case Kind.DENSE:
            bits = 32 * size
        case Kind.SIGN:
            bits = size + 32 * groups
        case Kind.QUANT:
            bits = header.aux * size + 32 * groups
        case Kind.SPARSE | Kind.SET_SPARSE:
            count = _count(frame, header)
            bits, index_bits = 32 * count, (size - 1).bit_length() * count
        case Kind.OCTAVES:
            count = _count(frame, header)
            bits, index_bits = 3 * count + 32 * groups, (size - 1).bit_length() * count
        case Kind.CODED:
            bits = 8 * header.length
    skipped = header.kind is Kind.SKIP
    return FrameInfo(
        header.kind, header.length, wire.HEADER_BYTES, bits, index_bits, skipped, isinstance(frame, Phantom)
    )


def _count(frame: bytes, header: wire.Header) -> int:
    if header.length < COUNT.size:
        raise FrameError(f"{header.kind.name}: the count is missing")
    count: int = COUNT.unpack_from(frame, wire.HEADER_BYTES)[0]
    return count
