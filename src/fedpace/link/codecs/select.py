"""The k entries of largest magnitude, exactly: among equals the lower index wins, zeros never count."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fedpace.link.wire.frame import NonFiniteError
from fedpace.link.wire.indices import Indices, index_type
from fedpace.link.wire.values import finite
from fedpace.vector import Vector

Words = npt.NDArray[np.unsignedinteger]

SMALL = 4096  # below this a sort is quicker than counting buckets
BUCKETS = 1 << 15


def largest(v: Vector, k: int) -> Indices:
    """Ascending indices of the first k in the order of (-|v_j|, j), without those where v_j = 0."""
    if v.size <= SMALL:
        order = np.argsort(-np.abs(finite(v, "top-k")), kind="stable")[:k]
        return np.sort(order[v[order] != 0])
    return _largest(v if v.dtype.itemsize >= 4 else v.astype(np.float32), k)


def shifted(at: Indices, low: int, size: int) -> Indices:
    """Positions in a part of a vector that begins at `low`, as positions in the whole one of `size` entries."""
    return np.add(at, low, dtype=index_type(size)) if low else at.astype(index_type(size), copy=False)


def _largest(v: Vector, k: int) -> Indices:
    """Magnitudes compare as their bits do: count by the top 15 bits, then sort out one bucket."""
    from fedpace.link.codecs import kernels

    bits, mask, shift = _words(v)
    counts = np.zeros(BUCKETS, np.int64)
    kernels.count_top_bits(bits, mask, shift, counts)
    if counts[_words(np.full(1, np.inf, v.dtype))[0][0] >> shift :].any():
        raise NonFiniteError("top-k: a value is not finite")
    from_top = np.cumsum(counts[::-1])
    bucket = BUCKETS - 1 - int(np.searchsorted(from_top, k))
    inside = np.empty(counts[bucket] + 1, bits.dtype)
    kernels.gather_bucket(bits, mask, shift, bits.dtype.type(bucket), inside)
    above = int(from_top[BUCKETS - 1 - bucket] - counts[bucket])
    last, larger, equal = _last(inside[:-1], k - above)
    where = np.empty(above + larger + equal + 1, index_type(v.size))
    kernels.find_largest(bits, mask, last, equal, where)
    return where[:-1]


def _last(inside: Words, k: int) -> tuple[np.unsignedinteger, int, int]:
    """The k-th largest of a bucket, how many are larger, and how many that equal it are kept; none of zero."""
    last = np.partition(inside, inside.size - k)[inside.size - k]
    larger = int(np.count_nonzero(inside > last))
    return last, larger, k - larger if last else 0


def _words(v: Vector) -> tuple[Words, np.unsignedinteger, np.unsignedinteger]:
    """The bits of the entries, a mask without the sign, and a shift that leaves fifteen bits."""
    word = np.dtype(f"u{v.dtype.itemsize}").type
    width = 8 * v.dtype.itemsize
    return np.ascontiguousarray(v).view(word), word(2 ** (width - 1) - 1), word(width - 16)
