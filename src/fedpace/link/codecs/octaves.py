"""The signs and octaves of the largest entries, and one magnitude for each octave."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fedpace.errors import FrameError, require_count
from fedpace.link.codecs import groups
from fedpace.link.codecs.groups import Groups, PerTensor
from fedpace.link.codecs.select import largest
from fedpace.link.wire import frame as wire
from fedpace.link.wire import indices, pack, sparse, values
from fedpace.link.wire.frame import Kind, NonFiniteError
from fedpace.link.wire.indices import Indices
from fedpace.vector import Vector

LENGTH = struct.Struct("<I")  # bytes of the block of octaves, where there are several
MOST_LEVELS = 64

Levels = npt.NDArray[np.int64]


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
        parts = list(self._parts(v))
        at, levels = (np.concatenate([part[i] for part in parts]) for i in range(2))
        scales = np.array([part[2] for part in parts], v.dtype)
        return _write(Kept(at, v[at] > 0, levels, scales), v, self.index)

    def _parts(self, v: Vector) -> Iterator[tuple[Indices, Levels, npt.NDArray[np.float64]]]:
        """Positions, octaves and magnitudes of every tensor."""
        bounds = groups.bounds(self._sizes(v.size))
        for low, high, k in zip(bounds, bounds[1:], self._counts(v.size), strict=False):
            at = low + largest(v[low:high], k)
            size = np.abs(v[at]).astype(np.float64)
            levels = _octaves(size, self.levels)
            yield at, levels, _means(size, levels, self.levels)

    def decode(self, frame: bytes, size: int) -> Vector:
        kept = _read(frame, size, self._counts(size), self.levels, self.index)
        tensor = np.repeat(
            np.arange(len(kept.scales)), np.diff(np.searchsorted(kept.at, groups.bounds(self._sizes(size))))
        )
        self._check(kept, tensor, size)
        magnitudes = kept.scales[tensor, kept.levels]
        v = np.zeros(size, kept.scales.dtype)
        v[kept.at] = np.where(kept.positive, magnitudes, -magnitudes)
        return v

    def _check(self, kept: Kept, tensor: Levels, size: int) -> None:
        places = tensor * self.levels + kept.levels
        entries = np.bincount(places, minlength=kept.scales.size).reshape(kept.scales.shape)
        if (entries.sum(1) > self._counts(size)).any() or ((kept.scales > 0) != (entries > 0)).any():
            raise FrameError("OCTAVES: a tensor has too many entries, or a magnitude is missing or in vain")

    def contraction(self, size: int) -> float:
        return 1 - (1 - values.roundoff(None) ** 2) / max(self._sizes(size))

    def _counts(self, size: int) -> Groups:
        return groups.counts(self.ratio, self._sizes(size))


def _octaves(size: npt.NDArray[np.float64], most: int) -> Levels:
    """How often each magnitude can be halved and is no smaller than the smallest, `most` - 1 times at most."""
    levels = np.zeros(size.size, np.int64)
    if most > 1 and size.size:
        with np.errstate(over="ignore"):
            ratios = np.minimum(size / size.min(), 2.0**most)
        levels = np.minimum(np.frexp(ratios)[1] - 1, most - 1).astype(np.int64)
    return levels


def _means(size: npt.NDArray[np.float64], levels: Levels, most: int) -> npt.NDArray[np.float64]:
    with np.errstate(over="ignore"):
        totals = np.bincount(levels, size, most)
    if not np.isfinite(totals).all():
        raise NonFiniteError("octaves: a value is not finite")
    return totals / np.maximum(1, np.bincount(levels, minlength=most))


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
    octaves = np.zeros(count, np.int64)
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
    """Each number as so many ones and a zero; the last byte is padded with zeros."""
    bits = np.ones(int((numbers + 1).sum()), np.uint8)
    bits[np.cumsum(numbers + 1) - 1] = 0
    return np.packbits(bits).tobytes()


def unpack_unary(packed: npt.NDArray[np.uint8], count: int, below: int) -> Levels:
    """The `count` numbers in exactly these bytes, all smaller than `below`."""
    bits = np.unpackbits(packed)
    ends = np.flatnonzero(bits == 0)[:count]
    used = int(ends[-1]) + 1 if count and ends.size == count else 0
    numbers = np.diff(ends, prepend=-1) - 1
    if ends.size < count or packed.size != pack.packed_bytes(used, 1) or bits[used:].any():
        raise FrameError(f"OCTAVES: {packed.size} bytes do not hold {count} octaves")
    if (numbers >= below).any():
        raise FrameError(f"OCTAVES: an octave is not below {below}")
    return numbers
