from __future__ import annotations

import math

import pytest

from fedpace.errors import ConfigError
from fedpace.sim import Population
from fedpace.sim.availability import absent_at_start, changes, check_windows


def test_every_border_is_a_change_but_the_beginning_and_the_end_of_time() -> None:
    windows = [(0, 0.0, 5.0), (1, 2.0, math.inf), (0, 7.0, 9.0)]
    assert sorted(changes(windows)) == [(2.0, 1, True), (5.0, 0, False), (7.0, 0, True), (9.0, 0, False)]


def test_windows_that_touch_are_one() -> None:
    assert list(changes([(0, 1.0, 2.0), (0, 2.0, 3.0)])) == [(1.0, 0, True), (3.0, 0, False)]


def test_who_has_no_window_at_the_start_is_not_there() -> None:
    assert absent_at_start([(0, 0.0, 1.0), (2, 3.0, 4.0)], 4) == {1, 2, 3}


@pytest.mark.parametrize(
    ("windows", "message"),
    [
        ([(0, 3.0, 3.0)], r"window of client 0 must be 0 <= from < to; got \(3.0, 3.0\)"),
        ([(0, -1.0, 3.0)], "0 <= from < to"),
        ([(0, 0.0, math.nan)], "0 <= from < to"),
        (
            [(0, 0.0, 4.0), (0, 3.0, 5.0)],
            r"windows of client 0 must not overlap; got \(0.0, 4.0\) and \(3.0, 5.0\)",
        ),
    ],
)
def test_windows_that_make_no_sense_are_refused(
    windows: list[tuple[int, float, float]], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        check_windows(windows)
    with pytest.raises(ConfigError, match=message):
        Population(solve_s=1.0, windows=windows)


def test_a_window_of_an_unknown_client_is_refused_when_the_clients_are_known() -> None:
    devices = Population(solve_s=1.0, windows=[(4, 0.0, 1.0)])
    with pytest.raises(ConfigError, match="client of a window must be in 0..3; got 4"):
        devices.bind(4, seed=0)
