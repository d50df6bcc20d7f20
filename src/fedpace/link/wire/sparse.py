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
    entries = count(header, frame, most)
    value_bytes = entries * values.type_bytes(name)
    at = positions(header, frame, entries, value_bytes, size, index)
    return at, values.finite(values.from_wire(frame, name, entries, len(frame) - value_bytes), kind.name)


def count(header: wire.Header, frame: bytes, most: int) -> int:
    """How many entries a frame carries, `most` at most."""
    if header.length < COUNT.size:
        raise FrameError(f"{header.kind.name}: the count is missing")
    found: int = COUNT.unpack_from(frame, wire.HEADER_BYTES)[0]
    if found > most:
        raise FrameError(f"{header.kind.name}: {found} values, but {most} allowed")
    return found


def positions(
    header: wire.Header,
    frame: bytes,
    entries: int,
    rest_bytes: int,
    size: int,
    index: str,
    more_bytes: int = 0,
) -> Indices:
    """The positions in the block between the count, `more_bytes`, and the last `rest_bytes` of the frame."""
    kind = header.kind.name
    if index != "auto" and indices.NAMES.index(index) != header.index_codec:
        raise FrameError(f"{kind}: expected {index} indices; got {indices.NAMES[header.index_codec]}")
    block_bytes = header.length - COUNT.size - more_bytes - rest_bytes
    if block_bytes < 0:
        raise FrameError(f"{kind}: {entries} values do not fit into {header.length} bytes")
    block = np.frombuffer(frame, np.uint8, block_bytes, wire.HEADER_BYTES + COUNT.size + more_bytes)
    return indices.read(block, header.index_codec, header.aux, entries, size)
