"""Solves in this process, whole or stopped between two steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from tests.compute.marked import SIZE, Marks, ask, expected

from fedpace.compute import Request
from fedpace.compute.inline import solve_until
from fedpace.vector import Vector


class Stoppable(Marks):
    """Half of the steps, whatever is said; on how many threads."""

    def train_until(self, request: Request, stopped: Any) -> tuple[Vector, int]:
        stopped()
        self.threads = torch.get_num_threads()
        return np.full(SIZE, 2.0), request.steps // 2


def test_a_task_that_cannot_be_stopped_trains_to_the_end() -> None:
    answers = iter([False])  # asked once
    delta, taken = solve_until(Marks(), ask(1, steps=5), lambda: next(answers))
    assert taken == 5
    assert np.array_equal(delta, expected(ask(1, steps=5)))


def unexpected(*_: Any) -> bool:
    raise AssertionError("nobody should ask")


def test_unless_it_has_not_begun() -> None:
    delta, taken = solve_until(Marks(unexpected), ask(1), lambda: True)
    assert taken == 0
    assert np.array_equal(delta, np.zeros(SIZE))


def test_no_steps_need_no_task() -> None:
    delta, taken = solve_until(Stoppable(), ask(1, steps=0), unexpected)
    assert taken == 0
    assert np.array_equal(delta, np.zeros(SIZE))


def test_a_task_that_can_be_stopped_is_asked_on_one_thread() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        task = Stoppable()
        delta, taken = solve_until(task, ask(1, steps=6), lambda: False)
        assert (task.threads, torch.get_num_threads()) == (1, 2)
    finally:
        torch.set_num_threads(before)
    assert taken == 3
    assert np.array_equal(delta, np.full(SIZE, 2.0))
