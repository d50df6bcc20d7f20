"""The signs and octaves of the largest entries, and one magnitude for each octave."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fedpace.errors import FrameError, require_count
from fedpace.kernels.memory import zeros
from fedpace.link.codecs import groups
from fedpace.link.codecs.groups import Groups, PerTensor
from fedpace.link.codecs.select import largest, shifted
from fedpace.link.wire import frame as wire
from fedpace.link.wire import indices, pack, sparse, values
from fedpace.link.wire.frame import Kind, NonFiniteError
from fedpace.link.wire.indices import Indices
from fedpace.vector import Vector

LENGTH = struct.Struct("<I")  # bytes of the block of octaves, where there are several
MOST_LEVELS = 64

Levels = npt.NDArray[np.unsignedinteger]  # a byte each


class Kept(NamedTuple):
    """What a frame says of a vector."""

    at: Indices
    positive: npt.NDArray[np.bool_]
    levels: Levels  # the octave of each entry
    scales: Vector  # (tensors, levels)


@dataclass(frozen=True, slots=True)
class Octaves(PerTensor):
    """Keep the k = ceil(ratio d) entries of largest magnitude as + mu or - mu, and zero the rest.

    mu is the mean magnitude of the entry's octave: with t the smallest magnitude kept, octave l has those from 2^l t
    up to 2^(l+1) t, the last of `levels` all that is larger. `levels=1` is sparse ternary compression, Sattler,
    Wiedemann, Mueller & Samek 2019, arXiv:1903.02891, Algorithm 1; octaves, as in natural compression (Horvath et al.
    2019), follow updates whose entries differ by more than a factor of two.
    Contraction: ||C(v) - v||^2 = ||v||^2 - sum over octaves of ||v_l||_1^2 / k_l; at worst 1 - 1/d. At 1.4 bits an
    entry it leaves a fifth of a client update's square where top-k at 1.6 bits leaves more than half (docs/link.md).
    Wire: OCTAVES; u32 count, with several levels u32 bytes of the block of octaves, index block, for every tensor
    (flat: once) the magnitudes, a bit for each entry kept, 1 = positive, and its octave in unary: that many ones, a 0.
    Departures: zeros are never among the entries kept; Rice codes and their like instead of Golomb's.
    """

    ratio: float
    levels: int = 4
    index: str = "auto"
    groups: Groups = ()

    def __post_init__(self) -> None:
        groups.require_ratio(self.ratio, "Octaves.ratio")
        require_count(self.levels, "Octaves.levels", high=MOST_LEVELS)
        indices.require_index(self.index, "Octaves.index")

    def encode(self, v: Vector, rng: np.random.Generator) -> bytes:
        parts = list(self._parts(v if v.dtype.itemsize >= 4 else v.astype(np.float32)))
        at, positive, levels, scales = (_joined([part[i] for part in parts]) for i in range(4))
        return _write(
            Kept(at, positive, levels, scales.reshape(len(parts), -1).astype(v.dtype)), v, self.index
        )

    def _parts(self, v: Vector) -> Iterator[tuple[npt.NDArray[Any], ...]]:
        """Positions, signs, octaves and magnitudes of every tensor."""
        bounds = groups.bounds(self._sizes(v.size))
        for low, high, k in zip(bounds, bounds[1:], self._counts(v.size), strict=False):
            at = shifted(largest(v[low:high], k), low, v.size)
            yield at, *_octaves(v, at, self.levels)

    def decode(self, frame: bytes, size: int) -> Vector:
        kept = self._read(frame, size)
        v = zeros(size, np.result_type(kept.scales, np.float32))  # halves are not added to
        self._add(kept, v, kept.scales)
        return v.astype(kept.scales.dtype, copy=False)

    def subtract(self, frame: bytes, v: Vector) -> Vector:
        """v - decode(frame), written over `v`."""
        kept = self._read(frame, v.size)
        if v.dtype != np.result_type(kept.scales, np.float32):
            return v - self.decode(frame, v.size)
        self._add(kept, v, np.negative(kept.scales))
        return v

    def _add(self, kept: Kept, v: Vector, scales: Vector) -> None:
        """Add these magnitudes, with the signs kept, to the entries of `v`; FrameError if they make no sense."""
        from fedpace.link.codecs import kernels

        bounds = np.array(groups.bounds(self._sizes(v.size)), kept.at.dtype)
        entries = np.zeros(scales.shape, np.int64)
        for i, (low, high) in enumerate(pairwise(np.searchsorted(kept.at, bounds))):
            part = (kept.at[low:high], kept.positive[low:high], kept.levels[low:high])
            kernels.add_octaves(*part, scales[i], v, entries[i])
        if (entries.sum(1) > self._counts(v.size)).any() or ((scales != 0) != (entries > 0)).any():
            raise FrameError("OCTAVES: a tensor has too many entries, or a magnitude is missing or in vain")

    def _read(self, frame: bytes, size: int) -> Kept:
        return _read(frame, size, self._counts(size), self.levels, self.index)

    def contraction(self, size: int) -> float:
        return 1 - (1 - values.roundoff(None) ** 2) / max(self._sizes(size))

    def _counts(self, size: int) -> Groups:
        return groups.counts(self.ratio, self._sizes(size))


def _octaves(
    v: Vector, at: Indices, most: int
) -> tuple[npt.NDArray[np.bool_], Levels, npt.NDArray[np.float64]]:
    """Of these entries: whether each is positive, its octave, and the mean magnitude of every octave."""
    from fedpace.link.codecs import kernels

    positive, levels = np.empty(at.size, bool), np.empty(at.size, np.uint8)
    totals, counts = np.zeros(most), np.zeros(most, np.int64)
    kernels.are_positive(v, at, positive)
    with np.errstate(over="ignore"):
        bounds = kernels.smallest_of(v, at) * 2.0 ** np.arange(1, most)
    kernels.octaves_of(v, at, bounds, levels, totals, counts)
    if not np.isfinite(totals).all():
        raise NonFiniteError("octaves: a value is not finite")
    return positive, levels, totals / np.maximum(1, counts)


def _joined(parts: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _write(kept: Kept, v: Vector, index: str) -> bytes:
    name = values.type_name(v, None)
    block, codec, aux = indices.write(kept.at, v.size, index)
    octaves = pack_unary(kept.levels) if kept.scales.shape[1] > 1 else b""
    head = sparse.COUNT.pack(kept.at.size) + (LENGTH.pack(len(octaves)) if kept.scales.shape[1] > 1 else b"")
    scales = values.to_wire(kept.scales.reshape(-1), name)
    flags = values.type_flags(name) | codec << wire.INDEX_SHIFT
    return wire.build(
        Kind.OCTAVES, head, block, scales, np.packbits(kept.positive), octaves, flags=flags, aux=aux
    )


def _read(frame: bytes, size: int, most: Groups, levels: int, index: str) -> Kept:
    header = wire.expect(frame, Kind.OCTAVES)
    name = values.sent_type(header, None)
    count = sparse.count(header, frame, sum(most))
    unary = _unary_bytes(header, frame) if levels > 1 else 0
    signs = pack.packed_bytes(count, 1)
    scales = len(most) * levels * values.type_bytes(name)
    head = LENGTH.size if levels > 1 else 0
    at = sparse.positions(header, frame, count, scales + signs + unary, size, index, head)
    end = len(frame) - unary
    found = values.finite(values.from_wire(frame, name, len(most) * levels, end - signs - scales), "OCTAVES")
    if np.signbit(found).any():
        raise FrameError("OCTAVES: a magnitude is negative")
    positive = pack.unpack(np.frombuffer(frame, np.uint8, signs, end - signs), 1, count).astype(bool)
    octaves = np.zeros(count, np.uint8)
    if levels > 1:
        octaves = unpack_unary(np.frombuffer(frame, np.uint8, unary, end), count, levels)
    return Kept(at, positive, octaves, found.reshape(len(most), levels))


def _unary_bytes(header: wire.Header, frame: bytes) -> int:
    if header.length < sparse.COUNT.size + LENGTH.size:
        raise FrameError("OCTAVES: the length of the octaves is missing")
    found: int = LENGTH.unpack_from(frame, wire.HEADER_BYTES + sparse.COUNT.size)[0]
    if found > header.length:
        raise FrameError(f"OCTAVES: {found} bytes of octaves in {header.length}")
    return found


def pack_unary(numbers: Levels) -> bytes:
    """Each number as so many ones and a zero, a Rice code without low bits; the last byte is padded with zeros."""
    return indices.write_rice(numbers, 0).tobytes()


def unpack_unary(packed: npt.NDArray[np.uint8], count: int, below: int) -> Levels:
    """The `count` numbers in exactly these bytes, all smaller than `below`."""
    from fedpace.link.codecs import kernels

    numbers = np.empty(count, np.uint8)
    used = kernels.unary_read(packed, below, numbers)
    if used == -2:
        raise FrameError(f"OCTAVES: an octave is not below {below}")
    spare = 8 * packed.size - used
    if used < 0 or spare > 7 or (spare and packed[-1] & ((1 << spare) - 1)):
        raise FrameError(f"OCTAVES: {packed.size} bytes do not hold {count} octaves")
    return numbers
