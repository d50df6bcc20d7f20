from __future__ import annotations

import numpy as np
import pytest

from fedpace.vector import is_finite


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1, 50_000])
def test_numbers_whose_squares_overflow_are_finite(dtype: type, size: int) -> None:
    """And nothing is warned of: warnings are errors here."""
    assert is_finite(np.full(size, np.finfo(dtype).max))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", [0, -1])
def test_one_bad_number_is_found(bad: float, where: int) -> None:
    v = np.ones(10_000, np.float32)
    v[where] = bad
    assert not is_finite(v)


def test_nothing_is_finite() -> None:
    assert is_finite(np.empty(0))
