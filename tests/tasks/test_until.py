"""A session stopped after k steps is a session of k steps, bit for bit, however its steps are computed."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numba
import numpy as np
import pytest
from tests.tasks.kinds import RULES, SOLVING, STEPS, ask, task_of

from fedpace.compute.inline import solve, solve_until

kept = cache(lambda kind: task_of(kind, range(5)))


class After:
    """Stops a session after so many steps, and counts how often it was asked."""

    def __init__(self, steps: int):
        self.steps, self.asked = steps, 0

    def __call__(self) -> bool:
        self.asked += 1
        return self.asked > self.steps


@pytest.mark.parametrize("k", [0, 1, 2, 7, STEPS])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", SOLVING)
def test_stopped_after_k_steps_equals_k_steps(kind: str, rule: str, k: int) -> None:
    task, stopped = kept(kind), After(k)
    request = ask(task, rule)
    delta, taken = task.train_until(request, stopped)
    expected = solve(task, replace(request, steps=k))
    assert taken == k and delta.dtype == expected.dtype
    assert np.array_equal(delta, expected)
    assert delta.any() == (k > 0)
    assert stopped.asked == min(k + 1, STEPS)  # before every step, and not after the last


@pytest.mark.parametrize("k", [0, 1, 2, 7, STEPS])
@pytest.mark.parametrize("kind", SOLVING)
def test_with_the_full_batch(kind: str, k: int) -> None:
    task = kept(kind)
    request = ask(task, "all", batch_size=None)
    delta, taken = task.train_until(request, After(k))
    assert taken == k
    assert np.array_equal(delta, solve(task, replace(request, steps=k)))


@pytest.mark.parametrize("kind", SOLVING)
def test_a_stopped_session_leaves_nothing_behind(kind: str) -> None:
    task = kept(kind)
    request = ask(task, "all")
    before, start = task.solve(request), request.start.copy()
    task.train_until(ask(task, "momentum"), After(3))
    assert np.array_equal(task.solve(request), before)
    assert np.array_equal(request.start, start)


@pytest.mark.parametrize("kind", SOLVING)
def test_engines_stop_by_the_tasks_own_means(kind: str) -> None:
    task = kept(kind)
    request = ask(task, "Nesterov")
    delta, taken = solve_until(task, request, After(4))
    assert taken == 4
    assert np.array_equal(delta, solve(task, replace(request, steps=4)))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("batch_size", [None, 5])
def test_single_steps_run_the_code_that_was_compiled_for_whole_solves(
    rule: str, batch_size: int | None
) -> None:
    """Another type of array would be compiled anew, for seconds in the middle of a session."""
    task = kept("mlp")
    request = ask(task, rule, batch_size=batch_size)
    descent = task._solver._descent(request, request.start, task.client_data(3))
    whole = [numba.typeof(part) for part in descent]
    for k in (0, 1, STEPS - 1):
        assert [numba.typeof(part) for part in descent.step(k)] == whole
