"""A cache of few bits with one scale per client: the coarsest reading of a quantiser that a paper does not give."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedpace.aggregate.rows import WholeRows
from fedpace.vector import Vector


@dataclass(frozen=True, slots=True)
class OneScale:
    """A cache whose rows have one scale each, not one per 2048 entries: s sign(x) floor(L |x| / s + u) / L."""

    bits: int

    def __call__(self) -> WholeRows:
        return _CoarseRows(self.bits)


class _CoarseRows(WholeRows):
    def __init__(self, bits: int):
        super().__init__()
        self.levels = 2 ** (bits - 1) - 1

    def put(self, client: int, v: Vector, rng: np.random.Generator | None) -> Vector:
        scale = float(np.abs(v).max())
        noise = 0.5 if rng is None else rng.random(v.size)
        codes = np.sign(v) * np.floor(np.abs(v) * (self.levels / scale if scale else 0.0) + noise)
        return super().put(client, (codes * (scale / self.levels)).astype(v.dtype), None)
