"""The signs of the largest entries, and one magnitude for them all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from fedpace.errors import FrameError
from fedpace.link.codecs import groups
from fedpace.link.codecs.groups import Groups
from fedpace.link.codecs.select import largest
from fedpace.link.wire import frame as wire
from fedpace.link.wire import indices, pack, sparse, values
from fedpace.link.wire.frame import Kind, NonFiniteError
from fedpace.link.wire.indices import Indices
from fedpace.vector import Layout, Vector


@dataclass(frozen=True, slots=True)
class Ternary:
    """Keep the k = ceil(ratio d) entries of largest magnitude as + mu or - mu, mu their mean magnitude; zero the rest.

    Sparse ternary compression, Sattler, Wiedemann, Mueller & Samek 2019, arXiv:1903.02891, Algorithm 1.
    Contraction: ||C(v) - v||^2 = ||v||^2 - ||v_S||_1^2 / k, S being the entries kept; at worst 1 - 1/d. About
    H(ratio) + ratio bits an entry, H the binary entropy: of Gaussian entries half kept leave 19 % of ||v||^2 at
    1.5 bits, where top-k leaves 70 %.
    Wire: TERNARY; u32 count, index block, a scale for every tensor (flat: one), one bit per entry kept, 1 = positive.
    Departures: entries that are 0 are never among those kept; Rice codes and their like instead of Golomb's.
    """

    ratio: float
    index: str = "auto"
    groups: Groups = ()

    def __post_init__(self) -> None:
        groups.require_ratio(self.ratio, "Ternary.ratio")
        indices.require_index(self.index, "Ternary.index")

    def bind(self, layout: Layout) -> Self:
        return replace(self, groups=groups.of(layout))

    def encode(self, v: Vector, rng: np.random.Generator) -> bytes:
        bounds = groups.bounds(self._sizes(v.size))
        parts = zip(bounds, bounds[1:], groups.counts(self.ratio, self._sizes(v.size)), strict=False)
        kept = [low + largest(v[low:high], k) for low, high, k in parts]
        scales = np.array([_magnitude(v[at]) for at in kept], v.dtype)
        return _write(np.concatenate(kept), v, scales, self.index)

    def decode(self, frame: bytes, size: int) -> Vector:
        sizes = self._sizes(size)
        at, positive, scales = _read(frame, size, groups.counts(self.ratio, sizes), self.index)
        ends = np.searchsorted(at, groups.bounds(sizes))
        kept = np.diff(ends)
        if (kept > groups.counts(self.ratio, sizes)).any() or ((scales > 0) != (kept > 0)).any():
            raise FrameError("TERNARY: a tensor has too many entries, or entries and no magnitude")
        v = np.zeros(size, scales.dtype)
        magnitudes = np.repeat(scales, kept)
        v[at] = np.where(positive, magnitudes, -magnitudes)
        return v

    def contraction(self, size: int) -> float:
        return 1 - (1 - values.roundoff(None) ** 2) / max(self._sizes(size))

    def _sizes(self, size: int) -> Groups:
        return groups.sizes(self.groups, size, "Ternary")


def _magnitude(kept: Vector) -> float:
    with np.errstate(over="ignore"):
        total = float(np.abs(kept).sum(dtype=np.float64))
    if not np.isfinite(total):
        raise NonFiniteError("ternary: a value is not finite")
    return total / max(1, kept.size)


def _write(at: Indices, v: Vector, scales: Vector, index: str) -> bytes:
    name = values.type_name(v, None)
    block, codec, aux = indices.write(at, v.size, index)
    flags = values.type_flags(name) | codec << wire.INDEX_SHIFT
    body = values.to_wire(scales, name), np.packbits(v[at] > 0)
    return wire.build(Kind.TERNARY, sparse.COUNT.pack(at.size), block, *body, flags=flags, aux=aux)


def _read(frame: bytes, size: int, most: Groups, index: str) -> tuple[Indices, Vector, Vector]:
    """Positions, which of them are positive, and the scales."""
    header = wire.expect(frame, Kind.TERNARY)
    name = values.sent_type(header, None)
    count = sparse.count(header, frame, sum(most))
    scale_bytes, sign_bytes = len(most) * values.type_bytes(name), pack.packed_bytes(count, 1)
    at = sparse.positions(header, frame, count, scale_bytes + sign_bytes, size, index)
    scales = values.finite(
        values.from_wire(frame, name, len(most), len(frame) - scale_bytes - sign_bytes), "TERNARY"
    )
    if np.signbit(scales).any():
        raise FrameError("TERNARY: a scale is negative")
    signs = np.frombuffer(frame, np.uint8, sign_bytes, len(frame) - sign_bytes)
    return at, pack.unpack(signs, 1, count).astype(bool), scales
