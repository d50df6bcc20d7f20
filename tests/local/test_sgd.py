from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from fedpace.errors import ConfigError
from fedpace.local import SGD


def work(
    local: SGD, client: int = 0, round: int = 0, samples: float = 60.0, step_s: float = 0.1, seed: int = 0
) -> int:
    return local.work(client, round, samples, step_s, np.random.default_rng(seed))


def test_steps_for_all_per_client_and_per_round() -> None:
    assert work(SGD(0.1, steps=4), client=9, round=7) == 4
    assert [work(SGD(0.1, steps=[1, 3, 7]), client, round=5) for client in range(3)] == [1, 3, 7]
    by_round = SGD(0.1, steps=[[1, 2], [2, 1]])
    assert [[work(by_round, client, round) for client in (0, 1)] for round in (0, 1)] == [[1, 2], [2, 1]]


def test_sequences_become_tuples_so_that_rules_compare_and_hash() -> None:
    rule = SGD(0.1, steps=np.array([[1, 2], [2, 1]]), schedule=[1, 0.5])
    assert rule.steps == ((1, 2), (2, 1))
    assert rule == SGD(0.1, steps=((1, 2), (2, 1)), schedule=(1, 0.5))
    assert len({rule, SGD(0.1, steps=[[1, 2], [2, 1]], schedule=(1, 0.5))}) == 1
    assert type(SGD(0.1, epochs=np.int64(2)).epochs) is int
    assert type(SGD(np.float64(0.1), epochs=2).lr) is float


@pytest.mark.parametrize(("client", "round", "what"), [(2, 0, "client 2"), (0, 2, "round 2")])
def test_a_script_that_has_no_entry_says_so(client: int, round: int, what: str) -> None:
    rule = SGD(0.1, steps=[[1, 2], [2, 1]])
    with pytest.raises(ConfigError, match=f"SGD.steps must have an entry for {what}; got 2 entries"):
        work(rule, client, round)


@pytest.mark.parametrize(
    ("epochs", "batch_size", "samples", "expected"),
    [(1, 10, 60, 6), (3, 10, 61, 21), (2, 100, 60, 2), (5, None, 60, 5), (1, 10, 0.3, 1), (1, 10, 0, 1)],
)
def test_epochs_are_passes_with_a_last_partial_batch(
    epochs: int, batch_size: int | None, samples: float, expected: int
) -> None:
    assert work(SGD(0.1, epochs=epochs, batch_size=batch_size), samples=samples) == expected


def test_drawn_epochs_are_uniform_with_both_ends() -> None:
    """2000 draws from 2..5: each has 500 on average; five standard deviations are 97."""
    rule = SGD(0.1, epochs=(2, 5))
    drawn = [work(rule, seed=seed) for seed in range(2000)]
    assert sorted(set(drawn)) == [2, 3, 4, 5]
    assert max(abs(drawn.count(e) - 500) for e in (2, 3, 4, 5)) < 97
    assert rule.random_work and not SGD(0.1, epochs=2).random_work


@pytest.mark.parametrize(("seconds", "expected"), [(0.3, 3), (0.05, 1), (1.0, 10), (0.299, 2)])
def test_a_time_budget_holds_whole_steps(seconds: float, expected: int) -> None:
    assert work(SGD(0.1, seconds=seconds), step_s=0.1) == expected


def test_a_time_budget_needs_a_clock() -> None:
    with pytest.raises(ConfigError, match="seconds per step must be > 0 for a time budget; got 0.0"):
        work(SGD(0.1, seconds=1.0), step_s=0.0)


def test_the_schedule_goes_on_with_its_last_factor() -> None:
    rule = SGD(0.5, steps=1, schedule=(1, 0.5, 0.25))
    assert [rule.rate(k) for k in range(5)] == [0.5, 0.25, 0.125, 0.125, 0.125]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"lr": -1.0, "steps": 1}, "SGD.lr must be > 0; got -1.0"),
        ({"lr": 0.1}, "SGD must be given exactly one of steps, epochs and seconds; got []"),
        (
            {"lr": 0.1, "steps": 1, "epochs": 2},
            "SGD must be given exactly one of steps, epochs and seconds; got ['steps', 'epochs']",
        ),
        ({"lr": 0.1, "steps": 0}, "SGD.steps must be a whole number >= 1; got 0"),
        ({"lr": 0.1, "steps": 1.5}, "SGD.steps must be a whole number >= 1; got 1.5"),
        (
            {"lr": 0.1, "steps": []},
            "SGD.steps must be a number, one per client, or one list per round; got ()",
        ),
        ({"lr": 0.1, "steps": [1, 0]}, "SGD.steps must be a whole number >= 1; got 0"),
        ({"lr": 0.1, "steps": [1, [2]]}, "SGD.steps must be either all numbers or all lists; got (1, (2,))"),
        ({"lr": 0.1, "steps": [[1], []]}, "SGD.steps must be given for every client in every round; got"),
        ({"lr": 0.1, "epochs": 0}, "SGD.epochs must be a whole number >= 1; got 0"),
        (
            {"lr": 0.1, "epochs": (5, 2)},
            "SGD.epochs must be a number or (low, high) with low <= high; got (5, 2)",
        ),
        ({"lr": 0.1, "epochs": (1, 2, 3)}, "SGD.epochs must be a number or (low, high) with low <= high"),
        ({"lr": 0.1, "seconds": 0}, "SGD.seconds must be > 0; got 0"),
        ({"lr": 0.1, "steps": 1, "batch_size": 0}, "SGD.batch_size must be a whole number >= 1; got 0"),
        ({"lr": 0.1, "steps": 1, "momentum": -0.1}, "SGD.momentum must be in [0, 1); got -0.1"),
        ({"lr": 0.1, "steps": 1, "momentum": 1}, "SGD.momentum must be in [0, 1); got 1"),
        (
            {"lr": 0.1, "steps": 1, "nesterov": True},
            "SGD.nesterov must be False when momentum is 0; got True",
        ),
        ({"lr": 0.1, "steps": 1, "nesterov": 1}, "SGD.nesterov must be True or False; got 1"),
        ({"lr": 0.1, "steps": 1, "prox_mu": -1}, "SGD.prox_mu must be >= 0; got -1"),
        ({"lr": 0.5, "steps": 1, "prox_mu": 2.0}, "SGD.lr * SGD.prox_mu must be < 1 (the pull"),
        ({"lr": 0.4, "steps": 1, "prox_mu": 2.0, "schedule": (1, 2)}, "SGD.lr * SGD.prox_mu must be < 1"),
        ({"lr": 0.1, "steps": 1, "weight_decay": -1}, "SGD.weight_decay must be >= 0; got -1"),
        ({"lr": 0.1, "steps": 1, "clip": 0}, "SGD.clip must be > 0, or None; got 0"),
        ({"lr": 0.1, "steps": 1, "schedule": ()}, "SGD.schedule must be factors of lr, or None; got ()"),
        ({"lr": 0.1, "steps": 1, "schedule": (1, 0)}, "SGD.schedule must be factors > 0; got 0"),
    ],
)
def test_bad_input_is_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        SGD(**arguments)


def test_a_vector_needs_a_step() -> None:
    with pytest.raises(ConfigError, match="number of local steps must be a whole number >= 1; got 0"):
        SGD(0.1, steps=1).a_norm1(0)
