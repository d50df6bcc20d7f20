"""Who is chosen: the available clients, selections and cohorts."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedpace.errors import ConfigError
from fedpace.pace import Available, ByShare, Poisson, Scripted, Uniform, WithReplacement, selection
from fedpace.pace.cohort import Cohort

some = st.sets(st.integers(0, 19), max_size=20)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@given(absent=some, busy=some, k=st.integers(1, 20), seed=st.integers(0, 99))
def test_a_draw_is_distinct_present_and_idle(absent: set[int], busy: set[int], k: int, seed: int) -> None:
    free = set(range(20)) - absent - busy
    drawn = Available(20, absent).draw(k, rng(seed), busy)
    assert drawn == sorted(set(drawn)) and set(drawn) <= free
    assert len(drawn) == min(k, len(free))


@pytest.mark.parametrize("busy", [set(), {0, 1}, set(range(14))])
def test_every_idle_client_is_drawn_equally_often(busy: set[int]) -> None:
    """By rejection where most are free, from a list where few are: uniform either way (chi-square, fixed seed)."""
    available, source = Available(20, {19}), rng(1)
    counts = Counter(client for _ in range(1500) for client in available.draw(3, source, busy))
    free = available.members(busy)
    assert stats.chisquare([counts[client] for client in free]).pvalue > 0.01


def test_drawing_from_a_million_does_not_list_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Available, "members", lambda *_: pytest.fail("listed a million clients"))
    available = Available(1_000_000, set(range(400_000)))
    drawn = available.draw(1000, rng(), busy=set(range(990_000, 1_000_000)))
    assert len(drawn) == 1000 and 400_000 <= min(drawn) <= max(drawn) < 990_000


@given(absent=some, by_share=st.booleans(), seed=st.integers(0, 99))
def test_repeated_draws_are_of_who_is_there(absent: set[int], by_share: bool, seed: int) -> None:
    drawn = Available(20, absent).draw_repeatedly(30, rng(seed), by_share=by_share)
    assert set(drawn).isdisjoint(absent)
    assert len(drawn) == (0 if len(absent) == 20 else 30)


def test_the_few_who_are_there_are_drawn_equally_often() -> None:
    counts = Counter(Available(100, set(range(95))).draw_repeatedly(2000, rng(2)))
    assert sorted(counts) == [95, 96, 97, 98, 99]
    assert stats.chisquare(list(counts.values())).pvalue > 0.01


def test_nobody_is_drawn_when_nobody_is_there() -> None:
    assert Available(2, {0, 1}).draw_repeatedly(3, rng()) == Available(2, {0, 1}).draw(3, rng()) == []


def test_draws_by_share_follow_the_shares() -> None:
    shares = np.array([0.1, 0.2, 0.3, 0.4])
    counts = Counter(Available(4, frozenset(), shares).draw_repeatedly(4000, rng(), by_share=True))
    assert stats.chisquare([counts[c] for c in range(4)], 4000 * shares).pvalue > 0.01
    without_first = Available(4, {0}, shares).draw_repeatedly(4000, rng(), by_share=True)
    counts = Counter(without_first)
    assert stats.chisquare([counts[c] for c in (1, 2, 3)], 4000 * shares[1:] / 0.9).pvalue > 0.01


def test_a_script_says_who_and_leaves_out_who_is_away() -> None:
    scripted = Scripted([[2, 0, 2], [1]])
    assert scripted.choose(9, 0, Available(3), set(), rng) == [2, 0, 2]
    assert scripted.choose(9, 0, Available(3, {2}), set(), rng) == [0]
    assert scripted.choose(9, 1, Available(3, {1}), set(), rng) == []
    with pytest.raises(ConfigError, match="got 2 groups and a choice number 3"):
        scripted.choose(1, 2, Available(3), set(), rng)


@pytest.mark.parametrize("groups", [[[]], [[0], []]])
def test_a_script_has_no_empty_groups(groups: list[list[int]]) -> None:
    with pytest.raises(ConfigError, match="non-empty groups"):
        Scripted(groups)


def test_selections_by_name_by_script_and_as_they_are() -> None:
    assert tuple(map(selection, ("uniform", "replacement", "share", "poisson"))) == (
        Uniform(),
        WithReplacement(),
        ByShare(),
        Poisson(),
    )
    assert selection([[0, 1]]) == Scripted([[0, 1]])
    assert selection(ByShare()) == ByShare()
    with pytest.raises(
        ConfigError, match="select must be one of uniform, replacement, share, poisson, or Scripted"
    ):
        selection("alphabetical")


def test_a_cohort_counts_draws_and_closes_when_nobody_is_waited_for() -> None:
    cohort = Cohort()
    assert cohort.answer(0) == 0 and not cohort.close_if_complete()  # not open yet
    assert cohort.call([2, 0, 2]) == [0, 2]
    assert (cohort.answer(2), cohort.answer(2), cohort.answer(1)) == (2, 0, 0)
    assert not cohort.close_if_complete()
    cohort.strike(0)
    assert cohort.close_if_complete() and not cohort.open


def test_a_cohort_without_any_answer_closes_with_nothing_to_step_with() -> None:
    cohort = Cohort()
    cohort.call([0])
    cohort.strike(0)
    assert not cohort.close_if_complete() and not cohort.open
    assert not cohort.close()
    cohort.call([1])
    assert not cohort.close()
    cohort.call([1, 2])
    cohort.answer(1)
    assert cohort.close() and cohort.waiting == set()
