"""Statistics against textbook numbers, algebra and scipy's own tests."""

from __future__ import annotations

import math

import pytest
from scipy import stats

from fedpace.errors import ConfigError
from fedpace.statistics import (
    SeedMean,
    clipped,
    clipped_difference,
    equivalence,
    estimate,
    holm,
    median,
    paired,
)

OURS, THEIRS = [0.91, 0.93, 0.90, 0.94, 0.92], [0.90, 0.90, 0.91, 0.91, 0.90]


def test_the_interval_of_two_values_is_that_of_cauchys_distribution() -> None:
    """With one degree of freedom the quantile is tan(pi (q - 1/2)), and s / sqrt(2) = |a - b| / 2."""
    half = math.tan(math.pi * 0.475) * 0.5
    assert estimate([1.0, 2.0]) == SeedMean(1.5, pytest.approx(1.5 - half), pytest.approx(1.5 + half), 2)
    assert estimate([1.0, 2.0]).half_width == pytest.approx(half)


def test_displayed_intervals_stay_within_the_possible_values_of_accuracy() -> None:
    wide = estimate([0.2, 0.9])
    assert wide.low is not None and wide.low < 0 and wide.high is not None and wide.high > 1
    assert clipped(wide, "accuracy") == SeedMean(wide.mean, 0.0, 1.0, 2)
    assert clipped(wide, "loss") == wide
    percent = estimate([20.0, 90.0])
    assert clipped(percent, "accuracy") == percent
    found = clipped_difference(paired([0.9, 0.1], [0.1, 0.8]), "accuracy")
    assert (found.low, found.high) == (-1.0, 1.0)


def test_one_seed_has_a_mean_and_nothing_more() -> None:
    assert estimate([0.5]) == SeedMean(0.5, None, None, 1)
    assert estimate([0.5]).half_width is None
    found = paired([0.5], [0.25])
    assert (found.mean, found.p, found.low) == (0.25, None, None)
    assert equivalence([0.5], [0.25], 1.0).p is None


def test_the_paired_t_test_is_scipys() -> None:
    found, known = paired(OURS, THEIRS), stats.ttest_rel(OURS, THEIRS)
    assert found.p == pytest.approx(known.pvalue, rel=1e-12)
    assert (found.low, found.high) == pytest.approx(tuple(known.confidence_interval(0.95)), rel=1e-12)
    assert found.mean == pytest.approx(0.016)


def test_pairing_removes_what_a_seed_does_to_both() -> None:
    """Seeds that shift both sides by as much as they like leave the differences alone."""
    shifted = paired(
        [a + 100.0 * n for n, a in enumerate(OURS)], [b + 100.0 * n for n, b in enumerate(THEIRS)]
    )
    assert shifted.p == pytest.approx(paired(OURS, THEIRS).p, rel=1e-6)


@pytest.mark.parametrize(("ours", "p"), [([1.0, 2.0, 3.0], 1.0), ([2.0, 3.0, 4.0], 0.0)])
def test_differences_without_any_spread_are_certain(ours: list[float], p: float) -> None:
    assert paired(ours, [1.0, 2.0, 3.0]).p == p


def test_equivalence_is_two_one_sided_tests() -> None:
    found = equivalence(OURS, THEIRS, 0.05)
    differences = [a - b for a, b in zip(OURS, THEIRS, strict=True)]
    above = stats.ttest_1samp(differences, -0.05, alternative="greater").pvalue
    below = stats.ttest_1samp(differences, 0.05, alternative="less").pvalue
    assert found.p == pytest.approx(max(above, below), rel=1e-9)


@pytest.mark.parametrize("margin", [0.001, 0.02, 0.028, 0.034, 0.04, 0.1])
def test_equivalence_is_shown_exactly_when_the_inner_interval_is_within_the_margin(margin: float) -> None:
    found = equivalence(OURS, THEIRS, margin)
    assert found.low is not None and found.high is not None and found.p is not None
    assert (found.p < 0.05) == (-margin < found.low and found.high < margin)


def test_holm_multiplies_the_smallest_by_all_and_never_decreases() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])  # 0.04 x 1 < 0.03 x 2
    assert holm([0.5, None, 0.6]) == [1.0, None, 1.0]
    assert holm([]) == []


@pytest.mark.parametrize(
    ("costs", "middle"),
    [
        ([5.0, math.inf, 3.0], 5.0),
        ([5.0, math.inf, math.inf], math.inf),
        ([2.0, 4.0, math.inf, 3.0], 3.5),
        ([2.0, math.inf], math.inf),
    ],
)
def test_what_was_not_reached_counts_as_infinite(costs: list[float], middle: float) -> None:
    assert median(costs) == middle


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: estimate([]),
        lambda: estimate([1.0], level=1.0),
        lambda: paired([1.0], [1.0, 2.0]),
        lambda: equivalence(OURS, THEIRS, 0.0),
        lambda: median([]),
    ],
)
def test_questions_without_an_answer_are_refused(wrong) -> None:
    with pytest.raises(ConfigError, match="must be"):
        wrong()
