from __future__ import annotations

import pytest

from fedpace.local import SGD
from fedpace.theory import Work
from fedpace.theory.picture import bars, most_misplaced, picture

LOCAL = SGD(0.1, steps=1)


def test_bars_in_text() -> None:
    """p = (1/2, 1/2), K = (1, 3): w = (1/4, 3/4), drawn 3/4 -> 12 characters wide."""
    assert bars(Work.of(LOCAL, (1, 3)), width=12).splitlines() == [
        "client        █ share of the objective   ▒ weight under plain averaging",
        "     0   50.0% ████████",
        "         25.0% ▒▒▒▒  x 0.5",
        "     1   50.0% ████████",
        "         75.0% ▒▒▒▒▒▒▒▒▒▒▒▒  x 1.5",
    ]


def test_of_many_clients_the_extremes_are_shown() -> None:
    work = Work.of(LOCAL, [5] * 20 + [1, 9])
    assert most_misplaced(work, 2) == [20, 21]
    assert bars(work, rows=2).splitlines()[-1].startswith("... the 2 of 22 clients")


def test_clients_without_a_share_are_left_out() -> None:
    assert most_misplaced(Work.of(LOCAL, (1, 2, 3), (1.0, 0.0, 1.0)), 12) == [0, 2]


def test_drawn_bars_have_the_heights_of_p_and_w() -> None:
    work = Work.of(LOCAL, (1, 3))
    (axes,) = picture(work).axes
    heights = [bar.get_height() for bar in axes.patches]
    assert heights == [0.5, 0.5, 0.25, 0.75]
    assert "chi-squared 0.333" in axes.get_title(loc="left")


def test_many_clients_are_drawn_as_ratios() -> None:
    work = Work.of(LOCAL, [1] * 15 + [3] * 15)
    (axes,) = picture(work).axes
    tops = [bar.get_y() + bar.get_height() for bar in axes.patches]
    assert tops == pytest.approx([0.5] * 15 + [1.5] * 15, rel=1e-12)
