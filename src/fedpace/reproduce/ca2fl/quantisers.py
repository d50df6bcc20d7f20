"""A cache of few bits with one scale per client: a coarse reading of a quantiser that a paper does not give."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedpace.vector import Vector


@dataclass(frozen=True, slots=True)
class OneScale:
    """A cache whose rows have one scale each, not one per 2048 entries: s sign(x) floor(L |x| / s + u) / L."""

    bits: int

    def store(self, v: Vector, rng: np.random.Generator | None) -> Vector:
        """Entries as multiples of the largest one's L-th part, rounded at random so that the mean stays."""
        levels, scale = 2 ** (self.bits - 1) - 1, float(np.abs(v).max())
        noise = 0.5 if rng is None else rng.random(v.size)
        codes = np.sign(v) * np.floor(np.abs(v) * (levels / scale if scale else 0.0) + noise)
        row: Vector = (codes * (scale / levels)).astype(v.dtype)
        return row

    def value(self, row: Vector) -> Vector:
        return row

    def nbytes(self, row: Vector) -> int:
        return row.nbytes
