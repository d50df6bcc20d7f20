"""Codes of b bits, one after another, most significant bit first; the last byte is padded with zeros.

The same packing serves frames and quantised caches.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fedpace.errors import FrameError
from fedpace.vector import Vector

Codes = npt.NDArray[np.unsignedinteger]
Bytes = npt.NDArray[np.uint8]


def packed_bytes(count: int, bits: int) -> int:
    return (count * bits + 7) // 8


def empty_codes(count: int, bits: int) -> Codes:
    """Room for `count` codes, a byte each where that is enough."""
    return np.empty(count, np.uint8) if bits <= 8 else np.empty(count, np.uint16)


def pack(codes: Codes, bits: int) -> Bytes:
    """`codes` (0 <= code < 2**bits, bits <= 16) as bytes."""
    if bits == 1:
        return np.packbits(codes)
    if bits == 8:
        return np.ascontiguousarray(codes, np.uint8)
    if bits == 16:
        return np.ascontiguousarray(codes, ">u2").view(np.uint8)
    return _pack(codes, bits)


def _pack(codes: Codes, bits: int) -> Bytes:
    from fedpace.link.codecs import kernels

    out = np.zeros(packed_bytes(codes.size, bits), np.uint8)
    if bits == 4 and codes.size % 2 == 0:
        kernels.pack_nibbles(codes, out)
    else:
        kernels.pack_bits(codes, bits, out)
    return out


def unpack(packed: Bytes, bits: int, count: int) -> Codes:
    """The `count` codes in exactly these bytes; FrameError if their number or the padding is wrong."""
    check_padding(packed, bits, count)
    if bits == 1:
        return np.unpackbits(packed, count=count)
    if bits == 8:
        return packed
    if bits == 16:
        return packed.view(">u2").astype(np.uint16)
    return _unpack(packed, bits, count)


def _unpack(packed: Bytes, bits: int, count: int) -> Codes:
    from fedpace.link.codecs import kernels

    codes = empty_codes(count, bits)
    kernels.unpack_bits(packed, bits, codes)
    return codes


def look_up(packed: Bytes, bits: int, count: int, table: Vector) -> Vector:
    """`table[code]` for each of the `count` codes."""
    from fedpace.link.codecs import kernels

    out = np.empty(count, table.dtype)
    if bits == 4 and count % 2 == 0:
        check_padding(packed, bits, count)
        kernels.look_up_nibbles(packed, table, out)
    else:
        kernels.look_up(unpack(packed, bits, count), table, out)
    return out


def check_padding(packed: Bytes, bits: int, count: int) -> None:
    if packed.size != packed_bytes(count, bits):
        raise FrameError(
            f"{count} codes of {bits} bits take {packed_bytes(count, bits)} bytes; got {packed.size}"
        )
    spare = packed.size * 8 - count * bits
    if spare and packed[-1] & ((1 << spare) - 1):
        raise FrameError("the bits after the last code are not zero")
