"""MF-CA2FL's cache: the quantiser against its printed codes, probabilities and variances, and the rows it fills."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from beds import ints, table
from fedpace.aggregate.rows import Packed
from fedpace.link import dequantise, quantise
from fedpace.link.wire.pack import pack, unpack
from fedpace.random import stream
from fedpace.vector import Vector

X = np.array([0.3, -1.0, 0.05, 0.0, 0.72])  # s = max|x| = 1
ROWS = table("quantiser")


def levels(row: dict[str, str]) -> int:
    return int(row["L"])


def codes(x: Vector, bits: int, u: Vector) -> list[int]:
    packed, _ = quantise(x, bits, u)
    top = 2 ** (bits - 1) - 1
    return (unpack(packed, bits, x.size).astype(int) - top).tolist()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['bits']} bits")
def test_codes_are_the_printed_ones(row: dict[str, str]) -> None:
    """sign(x) floor(|x| L / s + u) for u = 0 and u = 1/2."""
    bits = int(row["bits"])
    assert levels(row) == 2 ** (bits - 1) - 1
    assert codes(X, bits, np.zeros(5)) == list(ints(row["codes_u0"]))
    assert codes(X, bits, np.full(5, 0.5)) == list(ints(row["codes_u0.5"]))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['bits']} bits")
def test_probabilities_and_variance_follow_from_the_fractional_parts(row: dict[str, str]) -> None:
    p = np.array([float(word) for word in row["prob_round_up"].split()])
    fractions = np.abs(X) * levels(row) % 1
    np.testing.assert_allclose(np.where(np.isclose(fractions, 1), 0, fractions), p, atol=1e-12)
    variance = np.sum(p * (1 - p)) / levels(row) ** 2
    assert variance == pytest.approx(float(row["total_variance"]), rel=1e-12)
    assert (
        variance <= float(row["variance_bound_dim_s2_over_4L2"]) == pytest.approx(5 / (4 * levels(row) ** 2))
    )


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['bits']} bits")
def test_rounding_is_unbiased_with_the_printed_variance(row: dict[str, str]) -> None:
    """Two hundred thousand draws: the mean within 0.005 of x, the variance within 2 %."""
    bits, draws = int(row["bits"]), 200_000
    packed, scales = quantise(np.tile(X, draws), bits, np.random.default_rng(0), bucket=5)
    drawn = dequantise(packed, scales, bits, 5 * draws, bucket=5).reshape(draws, 5)
    assert np.abs(drawn.mean(0) - X).max() < 0.005
    assert drawn.var(0).sum() == pytest.approx(float(row["total_variance"]), rel=0.02)
    assert (drawn[:, 1] == -1.0).all() and (drawn[:, 3] == 0.0).all()  # the largest entry and zeros are exact


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_nothing_of_nothing_is_nothing(bits: int) -> None:
    packed, scales = quantise(np.zeros(7), bits, np.random.default_rng(0))
    assert dequantise(packed, scales, bits, 7).tolist() == [0.0] * 7


@given(bits=st.sampled_from([2, 4, 8]), numbers=st.lists(st.integers(0, 2**16 - 1), min_size=1, max_size=50))
def test_packing_codes_loses_none(bits: int, numbers: list[int]) -> None:
    given_codes = np.array(numbers, np.uint16) % (2**bits - 1)
    unpacked = unpack(pack(given_codes.astype(np.uint8), bits), bits, len(numbers))
    assert unpacked.tolist() == given_codes.tolist()


vectors = hnp.arrays(np.float32, st.integers(1, 40), elements=st.floats(-100, 100, width=32))


@given(v=vectors, bits=st.sampled_from([2, 4, 8]), seed=st.integers(0, 99))
def test_values_on_the_grid_stay_where_they_are(v: Vector, bits: int, seed: int) -> None:
    """A row that was rounded once is not rounded again by being stored again."""
    once = dequantise(*quantise(v, bits, np.random.default_rng(seed)), bits, v.size)
    again = dequantise(*quantise(once, bits, np.random.default_rng(seed + 1)), bits, v.size)
    np.testing.assert_allclose(again, once, rtol=1e-6, atol=1e-6 * float(np.abs(once).max()))


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_a_row_is_rounded_once_and_really_packed(bits: int) -> None:
    size, rows = 10_000, Packed(bits)
    v = np.random.default_rng(0).normal(size=size).astype(np.float32)
    row = rows.store(v, stream(0, "cache", 3, 1))
    stored = rows.value(row)
    for _ in range(3):
        np.testing.assert_array_equal(rows.value(row), stored)
    buckets = -(-size // 2048)
    assert rows.nbytes(row) == size * bits // 8 + 4 * buckets
