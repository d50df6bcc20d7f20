from __future__ import annotations

import math

import numpy as np
import pytest

from fedpace import algorithms
from fedpace.aggregate.rows import L2Scale, Packed
from fedpace.errors import ConfigError
from fedpace.random import stream


@pytest.mark.parametrize("bits", [2, 3, 4, 8, 12, 16])
def test_a_cache_scaled_by_the_norm_is_unbiased_with_the_variance_of_qsgd(bits: int) -> None:
    """E Q(v) = v, and E||Q(v) - v||^2 is the sum of p (1 - p) (||v||/s)^2, below min(d/s^2, sqrt(d)/s) ||v||^2."""
    v = np.concatenate([[3.0, -2.0], stream(7, "cache", 0).standard_normal(30) / 4])
    rows, draws, rng = L2Scale(bits), 3000, stream(7, "cache", 1)
    stored = np.array([rows.value(rows.store(v, rng)) for _ in range(draws)])
    norm, s = math.sqrt(v @ v), 2 ** (bits - 1) - 1
    p = np.abs(v) * s / norm % 1
    variance = p * (1 - p) * (norm / s) ** 2
    assert np.all(np.abs(stored.mean(0) - v) <= 5 * np.sqrt(variance / draws) + 1e-12)
    assert ((stored - v) ** 2).sum(1).mean() == pytest.approx(variance.sum(), rel=0.1)
    assert variance.sum() <= min(v.size / s**2, math.sqrt(v.size) / s) * norm**2


def test_rows_scaled_by_the_norm_are_packed_and_read_the_same_every_time() -> None:
    v = stream(1, "cache", 0).standard_normal(1001).astype(np.float32)
    rows = L2Scale(4)
    row = rows.store(v, stream(1, "cache", 1))
    assert rows.nbytes(row) == 501 + 4
    np.testing.assert_array_equal(rows.value(row), rows.value(row))
    assert rows.value(row).dtype == np.float32
    np.testing.assert_array_equal(rows.value(rows.store(np.zeros(5), None)), np.zeros(5))


def test_the_largest_entry_alone_is_kept_exactly() -> None:
    """An entry as long as the vector has the highest code, however the norm is rounded."""
    v = np.array([0.0, -0.1, 0.0], np.float32)
    for draw in range(200):
        np.testing.assert_array_equal(L2Scale(2).value(L2Scale(2).store(v, stream(2, "cache", draw))), v)


def test_mf_ca2fl_takes_either_scale_and_says_which() -> None:
    assert algorithms.mf_ca2fl(cache_bits=2).aggregate.format == Packed(2)
    assert algorithms.mf_ca2fl(cache_bits=2, cache_scale="l2").aggregate.format == L2Scale(2)
    with pytest.raises(ConfigError, match=r"cache_scale must be block or l2 with 2 bits; got 'l1'"):
        algorithms.mf_ca2fl(cache_bits=2, cache_scale="l1")
    with pytest.raises(ConfigError, match=r"cache_scale must be block with 32 bits; got 'l2'"):
        algorithms.mf_ca2fl(cache_bits=32, cache_scale="l2")
