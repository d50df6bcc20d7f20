from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from fedpace.errors import ConfigError
from fedpace.server_opt import Adam, Momentum, Stages


def test_ends_and_the_rule_of_each_step() -> None:
    first, second = Momentum(2.0), Momentum(1.0)
    stages = Stages(((2, first), (3, second)))
    assert stages.ends == (2, 5)
    assert [stages.at(step) for step in range(7)] == [first, first, *[second] * 5]


def test_lists_are_taken_too() -> None:
    lists: Any = [[2, Momentum()]]
    assert Stages(lists) == Stages(((2, Momentum()),))


def test_a_buffer_that_a_later_stage_reads_is_kept_from_the_start() -> None:
    """Stage one has nu = 0: its step ignores the buffer, but the buffer must know its updates."""
    stages = Stages(((1, Momentum(1.0, 0.5, 0.0)), (1, Momentum(1.0, 0.5, 1.0))))
    x, state = np.zeros(1), stages.init(np.zeros(1))
    x, state = stages.apply(x, np.array([4.0]), state)
    assert x.tolist() == [4.0]
    x, state = stages.apply(x, np.array([2.0]), state)
    assert x.tolist() == [4.0 + 0.5 * 2.0 + 0.5 * 2.0]  # b_1 = 2, b_2 = 2
    assert state.step == 2


def test_stages_of_plain_averaging_keep_no_buffer() -> None:
    assert Stages(((1, Momentum(2.0)), (1, Momentum(1.0)))).init(np.zeros(2)).inner.b is None


def test_stages_of_adam_carry_their_moments() -> None:
    stages, whole = Stages(((1, Adam(0.1)), (1, Adam(0.1)))), Adam(0.1)
    x = y = np.zeros(2)
    s, t = stages.init(x), whole.init(y)
    for delta in (np.array([1.0, -2.0]), np.array([0.5, 3.0])):
        x, s = stages.apply(x, delta, s)
        y, t = whole.apply(y, delta, t)
    assert x.tolist() == y.tolist()


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ((), "Stages must be at least one (rounds, rule); got ()"),
        ((Momentum(),), "Stages must be at least one (rounds, rule); got (Momentum("),
        (Momentum(), "Stages must be at least one (rounds, rule); got Momentum("),
        (((0, Momentum()),), "rounds of a stage must be a whole number >= 1; got 0"),
        (
            ((1, Momentum()), (1, Adam(0.1))),
            "Stages must be of one kind of rule, whose state is carried over; got ['Adam', 'Momentum']",
        ),
    ],
)
def test_bad_stages_are_refused(stages: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        Stages(stages)
