"""When a lazy rule fires: thresholds of NLA, AA and LAG."""

import numpy as np
import pytest

from fedpace.link.uplinks.thresholds import (
    BLOCK,
    per_update,
    squared_distance,
    squared_norm,
    within_norm,
    within_steps,
)

Y = np.array([3.0, 4.0])


@pytest.mark.parametrize(
    "x, y, tau, fires",
    [
        ((3, 4.5), (3, 4), 0.1, True),
        ((3, 4.51), (3, 4), 0.1, False),
        ((3, 4.5), (3, 4), 0.05, False),
        ((1e-9, 0), (0, 0), 0.1, False),
        ((0, 0), (0, 0), 0.1, True),
        ((3, 4), (3, 4), 0.0, False),
    ],
)
def test_the_threshold_is_inclusive_and_zero_disables_it(x, y, tau, fires):
    """O5; tau = .05 is what using m = 100 instead of n = 50 would give."""
    assert within_norm(np.array(x, float), np.array(y, float), tau) is fires


def test_the_papers_form_of_the_threshold():
    """O5: C = 5, alpha = 1, n = 50."""
    assert per_update(5, 1, 50) == 0.1


def test_norms_are_summed_in_float64():
    """In float32 the ones would vanish beside the 2^13 squared."""
    v = np.ones(BLOCK + 5, np.float32)
    v[0] = 2.0**13
    assert squared_norm(v) == 2.0**26 + BLOCK + 4
    assert squared_distance(v, np.zeros_like(v)) == 2.0**26 + BLOCK + 4


def test_lag_compares_with_the_mean_of_the_last_steps():
    """||x - y||^2 = 1 against tau^2 (1/R) sum of the last R squared steps; missing steps count as zero."""
    x, y = np.array([1.0]), np.array([0.0])
    assert within_steps(x, y, 1.0, (2.0, 0.0, 100.0), 2)
    assert not within_steps(x, y, 1.0, (1.9,), 2)
    assert within_steps(x, y, 2.0, (0.5,), 2)
    assert not within_steps(x, x, 0.0, (1.0,), 1)


def test_a_diverged_value_counts_as_changed():
    huge = np.array([1e200])
    assert squared_norm(huge) == squared_distance(huge, -huge) == np.inf
    assert not within_norm(huge, -huge, 1e9)
    assert not within_steps(huge, -huge, 1.0, (np.inf,), 1)
