"""Entries drawn at random."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedpace.errors import require_flag
from fedpace.link.codecs import groups
from fedpace.link.codecs.groups import Groups, PerTensor
from fedpace.link.wire import indices, sparse, values
from fedpace.vector import Vector


@dataclass(frozen=True, slots=True)
class RandK(PerTensor):
    """Keep k = ceil(ratio d) entries drawn without replacement, scaled by d/k so that E[C(v)] = v.

    Variance: E||C(v) - v||^2 = omega ||v||^2 with omega = d/k - 1. With `unbiased=False` they are sent
    unscaled: E||C(v) - v||^2 = (1 - k/d) ||v||^2, a contraction that error feedback can work with.
    Wire: SPARSE, as TopK.
    """

    ratio: float
    unbiased: bool = True
    values: str | None = None
    index: str = "auto"
    groups: Groups = ()

    def __post_init__(self) -> None:
        groups.require_ratio(self.ratio, "RandK.ratio")
        require_flag(self.unbiased, "RandK.unbiased")
        values.require_type(self.values, "RandK.values")
        indices.require_index(self.index, "RandK.index")

    def encode(self, v: Vector, rng: np.random.Generator) -> bytes:
        name, sizes = values.type_name(v, self.values), self._sizes(v.size)
        values.finite(v, "rand-k")
        at, picked = [np.empty(0, np.int64)], [v[:0]]
        low = 0
        for d, k in zip(sizes, groups.counts(self.ratio, sizes), strict=True):
            chosen = low + np.sort(rng.choice(d, k, replace=False))
            at.append(chosen)
            picked.append(v[chosen] * v.dtype.type(d / max(1, k)) if self.unbiased else v[chosen])
            low += d
        return sparse.encode(np.concatenate(at), np.concatenate(picked), v.size, name, self.index)

    def decode(self, frame: bytes, size: int) -> Vector:
        most = sum(groups.counts(self.ratio, self._sizes(size)))
        return sparse.decode(frame, size, most, self.values, self.index)

    def omega(self, size: int) -> float | None:
        return 1 / groups.least_kept(self.ratio, self._sizes(size)) - 1 if self.unbiased else None

    def contraction(self, size: int) -> float | None:
        least = groups.least_kept(self.ratio, self._sizes(size))
        return None if self.unbiased else 1 - least * (1 - values.roundoff(self.values) ** 2)
