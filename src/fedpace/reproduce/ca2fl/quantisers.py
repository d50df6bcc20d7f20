"""Caches of few bits with one scale per client: coarse readings of a quantiser that a paper does not give."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedpace.vector import Vector


@dataclass(frozen=True, slots=True)
class OneScale:
    """A cache whose rows have one scale each, not one per 2048 entries: s sign(x) floor(L |x| / s + u) / L."""

    bits: int

    def store(self, v: Vector, rng: np.random.Generator | None) -> Vector:
        return _rounded(v, self.scale(v), self.bits, rng)

    def scale(self, v: Vector) -> float:
        return float(np.abs(v).max())

    def value(self, row: Vector) -> Vector:
        return row

    def nbytes(self, row: Vector) -> int:
        return row.nbytes


class L2Scale(OneScale):
    """The same with the L2 norm as scale, as in QSGD: coarser by the square root of the size at the worst."""

    def scale(self, v: Vector) -> float:
        return float(np.linalg.norm(v))


def _rounded(v: Vector, scale: float, bits: int, rng: np.random.Generator | None) -> Vector:
    """Entries as multiples of scale / L, rounded at random so that the mean stays."""
    levels = 2 ** (bits - 1) - 1
    noise = 0.5 if rng is None else rng.random(v.size)
    codes = np.sign(v) * np.floor(np.abs(v) * (levels / scale if scale else 0.0) + noise)
    row: Vector = (codes * (scale / levels)).astype(v.dtype)
    return row
