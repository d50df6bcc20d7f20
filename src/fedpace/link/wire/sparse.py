"""Frames of SPARSE and SET_SPARSE: u32 count, index block, values in ascending order of index."""

from __future__ import annotations

import struct

import numpy as np

from fedpace.errors import FrameError
from fedpace.link.wire import frame as wire
from fedpace.link.wire import indices, values
from fedpace.link.wire.frame import Kind
from fedpace.link.wire.indices import Indices
from fedpace.vector import Vector

COUNT = struct.Struct("<I")


def encode(at: Indices, picked: Vector, size: int, type_name: str, index: str) -> bytes:
    """A SPARSE frame: `picked` at the ascending positions `at`, without those that would be read as zero."""
    keep = values.survives(picked, type_name)
    if not keep.all():
        at, picked = at[keep], picked[keep]
    return write(Kind.SPARSE, at, picked, size, type_name, index)


def decode(frame: bytes, size: int, most: int, type_name: str | None, index: str) -> Vector:
    """The vector of a SPARSE frame that may carry at most `most` entries."""
    at, picked = read(frame, Kind.SPARSE, size, most, type_name, index)
    if not picked.all():
        raise FrameError("SPARSE: a value is zero")
    v = np.zeros(size, picked.dtype)
    v[at] = picked
    return v


def write(kind: Kind, at: Indices, picked: Vector, size: int, type_name: str, index: str) -> bytes:
    """A frame that carries `picked` for the ascending positions `at` of a vector of `size` entries."""
    block, codec, aux = indices.write(at, size, index)
    flags = values.type_flags(type_name) | codec << wire.INDEX_SHIFT
    body = values.to_wire(picked, type_name)
    return wire.build(kind, COUNT.pack(at.size), block, body, flags=flags, aux=aux)


def read(
    frame: bytes, kind: Kind, size: int, most: int, type_name: str | None, index: str
) -> tuple[Indices, Vector]:
    """Positions and values of a frame that may carry at most `most` of them."""
    header = wire.expect(frame, kind)
    name = values.sent_type(header, type_name)
    if index != "auto" and indices.NAMES.index(index) != header.index_codec:
        raise FrameError(f"{kind.name}: expected {index} indices; got {indices.NAMES[header.index_codec]}")
    count, block_bytes = _lengths(header, frame, most, values.type_bytes(name))
    start = wire.HEADER_BYTES + COUNT.size
    block = np.frombuffer(frame, np.uint8, block_bytes, start)
    at = indices.read(block, header.index_codec, header.aux, count, size)
    return at, values.finite(values.from_wire(frame, name, count, start + block_bytes), kind.name)


def _lengths(header: wire.Header, frame: bytes, most: int, value_bytes: int) -> tuple[int, int]:
    """(count, bytes of the index block), the count bounded by the bytes that are really there."""
    if header.length < COUNT.size:
        raise FrameError(f"{header.kind.name}: the count is missing")
    (count,) = COUNT.unpack_from(frame, wire.HEADER_BYTES)
    block_bytes = header.length - COUNT.size - count * value_bytes
    if count > most or block_bytes < 0:
        raise FrameError(f"{header.kind.name}: {count} values, but {most} allowed and {header.length} bytes")
    return count, block_bytes
