"""The largest entries, exactly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedpace.link.codecs import groups
from fedpace.link.codecs.groups import Groups, PerTensor
from fedpace.link.codecs.select import largest, shifted
from fedpace.link.wire import indices, sparse, values
from fedpace.link.wire.indices import Indices
from fedpace.vector import Vector


@dataclass(frozen=True, slots=True)
class TopK(PerTensor):
    """Keep the k = ceil(ratio d) entries of largest magnitude (lower index among equals), zero the rest.

    Contraction: ||C(v) - v||^2 <= (1 - k/d) ||v||^2, a little more when values are rounded.
    Wire: SPARSE; values in the vector's own type unless `values` says otherwise, indices in the encoding
    that comes out smallest. Zeros are never sent. Bound to a layout, k of every tensor.

    >>> import numpy as np
    >>> from fedpace.link import TopK
    >>> codec, v = TopK(ratio=0.25), np.array([0.1, -3.0, 0.2, 0.5], np.float32)
    >>> frame = codec.encode(v, np.random.default_rng(0))
    >>> len(frame), codec.decode(frame, v.size)
    (29, array([ 0., -3.,  0.,  0.], dtype=float32))
    """

    ratio: float
    values: str | None = None
    index: str = "auto"
    groups: Groups = ()

    def __post_init__(self) -> None:
        groups.require_ratio(self.ratio, "TopK.ratio")
        values.require_type(self.values, "TopK.values")
        indices.require_index(self.index, "TopK.index")

    def counts(self, size: int) -> Groups:
        """k of every group."""
        return groups.counts(self.ratio, self._sizes(size))

    def exact(self, dtype: np.dtype[np.floating]) -> bool:
        return values.exact(dtype, self.values)

    def support(self, v: Vector) -> Indices:
        at = groups.bounds(self._sizes(v.size))
        parts = zip(at, at[1:], self.counts(v.size), strict=False)
        found = [shifted(largest(v[low:high], k), low, v.size) for low, high, k in parts]
        return found[0] if len(found) == 1 else np.concatenate(found)

    def encode(self, v: Vector, rng: np.random.Generator) -> bytes:
        at = self.support(v)
        return sparse.encode(at, v[at], v.size, values.type_name(v, self.values), self.index)

    def decode(self, frame: bytes, size: int) -> Vector:
        return sparse.decode(frame, size, sum(self.counts(size)), self.values, self.index)

    def contraction(self, size: int) -> float:
        return 1 - groups.least_kept(self.ratio, self._sizes(size)) * (1 - values.roundoff(self.values) ** 2)
