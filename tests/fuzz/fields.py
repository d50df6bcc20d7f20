"""A frame as its fields and back, from the layout that is written down: what canonical means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedpace.errors import FrameError
from fedpace.link.codecs import entropy
from fedpace.link.codecs.octaves import LENGTH, pack_unary, unpack_unary
from fedpace.link.wire import frame as wire
from fedpace.link.wire import indices, pack, sparse, values
from fedpace.link.wire.frame import Header, Kind

SPARSE = (Kind.SPARSE, Kind.SET_SPARSE)


@dataclass(frozen=True)
class Fields:
    """What a receiver knows of a frame once it has read it; no bytes of the payload as they came."""

    header: Header
    positions: tuple[int, ...] = ()
    numbers: tuple[float, ...] = ()  # values, or one scale per tensor
    codes: tuple[tuple[int, ...], ...] = ()  # signs or levels, per tensor


def parse(frame: bytes, sizes: tuple[int, ...]) -> Fields:
    """The fields of a frame about a vector of tensors of these sizes; FrameError if a part of it is not in order."""
    header = wire.parse(frame)
    if header.kind in wire.EMPTY:
        return Fields(header)
    name = values.type_of(header)
    if header.kind is Kind.DENSE:
        wire.expect_length(header, sum(sizes) * values.type_bytes(name))
        return Fields(header, numbers=_numbers(frame, name, sum(sizes), wire.HEADER_BYTES))
    if header.kind in SPARSE:
        size = sum(sizes)
        at, picked = sparse.read(frame, header.kind, size, size, name, "auto")
        return Fields(header, tuple(at.tolist()), tuple(picked.tolist()))
    if header.kind is Kind.OCTAVES:
        return _parse_octaves(frame, header, name, sizes)
    if header.kind is Kind.CODED:
        return _parse_coded(frame, header, sizes)
    return _parse_codes(frame, header, name, sizes)


def _numbers(frame: bytes, name: str, count: int, offset: int) -> tuple[float, ...]:
    read = values.finite(values.from_wire(frame, name, count, offset), "numbers")
    return tuple(read.tolist())


def _parse_codes(frame: bytes, header: Header, name: str, sizes: tuple[int, ...]) -> Fields:
    bits = 1 if header.kind is Kind.SIGN else header.aux
    if not 1 <= bits <= 16:
        raise FrameError(f"codes of {bits} bits")
    one, at = values.type_bytes(name), wire.HEADER_BYTES
    wire.expect_length(header, sum(one + pack.packed_bytes(size, bits) for size in sizes))
    scales: list[float] = []
    codes: list[tuple[int, ...]] = []
    for size in sizes:
        scales.append(float(values.scale(frame, name, at, header.kind.name)))
        packed = np.frombuffer(frame, np.uint8, pack.packed_bytes(size, bits), at + one)
        codes.append(tuple(pack.unpack(packed, bits, size).tolist()))
        at += one + packed.size
    return Fields(header, numbers=tuple(scales), codes=tuple(codes))


def _parse_octaves(frame: bytes, header: Header, name: str, sizes: tuple[int, ...]) -> Fields:
    """Of frames with four levels."""
    size, count = sum(sizes), sparse.count(header, frame, sum(sizes))
    (unary,) = LENGTH.unpack_from(frame, wire.HEADER_BYTES + sparse.COUNT.size)
    signs, scales = pack.packed_bytes(count, 1), 4 * len(sizes) * values.type_bytes(name)
    at = sparse.positions(header, frame, count, scales + signs + unary, size, "auto", LENGTH.size)
    end = len(frame) - unary
    numbers = _numbers(frame, name, 4 * len(sizes), end - scales - signs)
    positive = pack.unpack(np.frombuffer(frame, np.uint8, signs, end - signs), 1, count)
    octaves = unpack_unary(np.frombuffer(frame, np.uint8, unary, end), count, 4)
    return Fields(header, tuple(at.tolist()), numbers, (tuple(positive.tolist()), tuple(octaves.tolist())))


def _parse_coded(frame: bytes, header: Header, sizes: tuple[int, ...]) -> Fields:
    found, tensors = entropy.read(frame, sizes)
    seed = () if found.seed is None else (found.seed,)
    codes = (seed, tuple(tensors.lags.tolist()), tuple(found.q.tolist()))
    return Fields(header, numbers=tuple(found.scales.tolist()), codes=codes)


def build(fields: Fields, sizes: tuple[int, ...]) -> bytes:
    """The one frame that has these fields."""
    header = fields.header
    return wire.build(
        header.kind,
        *_payload(fields, sizes),
        flags=header.flags,
        aux=header.aux,
        round=header.round,
        ref=header.ref,
    )


def _payload(fields: Fields, sizes: tuple[int, ...]) -> list[Any]:
    header = fields.header
    if header.kind in wire.EMPTY:
        return []
    name = values.type_of(header)
    numbers = values.to_wire(np.array(fields.numbers, np.float64), name)
    if header.kind is Kind.DENSE:
        return [numbers]
    if header.kind in SPARSE:
        return [sparse.COUNT.pack(len(fields.positions)), _block(fields, sum(sizes)), numbers]
    if header.kind is Kind.OCTAVES:
        signs = pack.pack(np.array(fields.codes[0], np.uint8), 1)
        octaves = pack_unary(np.array(fields.codes[1], np.int64))
        head = sparse.COUNT.pack(len(fields.positions)) + LENGTH.pack(len(octaves))
        return [head, _block(fields, sum(sizes)), numbers, signs, octaves]
    if header.kind is Kind.CODED:
        return [numbers, *_coded(fields, sizes)]
    bits = 1 if header.kind is Kind.SIGN else header.aux
    kind = np.uint8 if bits <= 8 else np.uint16
    packed = [pack.pack(np.array(codes, kind), bits) for codes in fields.codes]
    return [
        part for number, block in zip(numbers, packed, strict=True) for part in (np.array([number]), block)
    ]


def _coded(fields: Fields, sizes: tuple[int, ...]) -> list[Any]:
    seed, lags, q = fields.codes
    tensors = entropy.CodedTensors(np.cumsum((0, *sizes)), np.array(lags, entropy.LAG))
    code = entropy.write_code(np.array(q, entropy.LEVEL), tensors)
    return [b"".join(map(entropy.SEED.pack, seed)), tensors.lags, code]


def _block(fields: Fields, size: int) -> Any:
    """The index block in the encoding, and with the Rice parameter, that the header names."""
    at, header = np.array(fields.positions, np.int64), fields.header
    if header.index_codec == indices.RICE:
        return indices.write_rice(np.diff(at, prepend=-1) - 1, header.aux)
    return indices.write(at, size, indices.NAMES[header.index_codec])[0]
