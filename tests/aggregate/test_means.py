"""Mean, Weighted and Normalised: sums first, division last, nothing written that is not theirs."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedpace.aggregate import Aggregator, Contribution, Mean, Normalised, Weighted
from fedpace.errors import ConfigError
from fedpace.vector import Vector, freeze

X = freeze(np.zeros(2))


def aggregated(rule: Aggregator, *updates: Contribution) -> Vector:
    state = rule.init(X, 3)
    for update in updates:
        state = rule.add(update, X, X, state)
    return rule.result(state)[0]


def update(client: int, *delta: float, **facts: Any) -> Contribution:
    return Contribution(client, freeze(np.array(delta, dtype=float)), **facts)


def test_mean_counts_everyone_the_same() -> None:
    assert aggregated(Mean(), update(0, 1, 2, samples=9), update(1, 3, -4)).tolist() == [2, -1]


def test_a_client_drawn_twice_counts_twice() -> None:
    assert aggregated(Mean(), update(0, 1, 0, count=3), update(1, 5, 4)).tolist() == [2, 1]
    assert aggregated(
        Weighted(), update(0, 1, 0, count=3, samples=2), update(1, 5, 4, samples=2)
    ).tolist() == [2, 1]


def test_weighted_counts_by_samples() -> None:
    assert aggregated(Weighted(), update(0, 1, 2, samples=3), update(1, 5, -2, samples=1)).tolist() == [2, 1]


def half(age: int) -> float:
    return 2.0**-age


def test_an_old_update_is_a_smaller_step() -> None:
    """FedBuff: (1 delta_1 + 1/4 delta_2) / 2, not / 1.25."""
    updates = update(0, 1, 2), update(1, 8, -8, staleness=2)
    assert aggregated(Mean(half), *updates).tolist() == [1.5, 0]
    weighted = update(0, 1, 2, samples=1), update(1, 8, -8, staleness=2, samples=3)
    assert aggregated(Weighted(half), *weighted).tolist() == [7 / 4, -1]


def test_sums_of_dyadic_numbers_are_divided_last() -> None:
    """(1 + 1 + 1) / 3 is 1; thirds added up need not be."""
    assert aggregated(Mean(), *[update(i, 0.1, 0.7) for i in range(3)]).tolist() == [
        (0.1 + 0.1 + 0.1) / 3,
        (0.7 + 0.7 + 0.7) / 3,
    ]


def test_numpy_scalars_do_not_widen_the_sum() -> None:
    """samples of a task may be numpy numbers; a float32 model must still be summed in float32."""
    deltas = [np.array([0.1, 0.7], np.float32), np.array([0.3, 0.2], np.float32)]
    plain = aggregated(Weighted(), *[Contribution(i, d, samples=0.3) for i, d in enumerate(deltas)])
    numpy = aggregated(
        Weighted(), *[Contribution(i, d, samples=np.float64(0.3)) for i, d in enumerate(deltas)]
    )
    assert plain.dtype == numpy.dtype == np.float32
    assert plain.tolist() == numpy.tolist()


def test_fednova_by_hand() -> None:
    """p = (1, 3) / 4, A = (2, 4): tau_eff = 3.5; delta / A = (2, 1): 3.5 (2 / 4 + 3 / 4) = 4.375."""
    updates = update(0, 4, 0, samples=1, steps=2, a_norm1=2), update(1, 4, 0, samples=3, steps=8, a_norm1=4)
    assert aggregated(Normalised(), *updates).tolist() == [4.375, 0]
    assert aggregated(Normalised("steps"), *updates).tolist() == [6.5 * 1.25, 0]
    assert aggregated(Normalised(8.0), *updates).tolist() == [8 * 1.25, 0]
    assert aggregated(Normalised(weighting="uniform"), *updates).tolist() == [3 * 1.5, 0]


def test_fednova_counts_with_multiplicity() -> None:
    twice = update(0, 4, 0, samples=1, a_norm1=2, count=2), update(1, 4, 0, samples=3, a_norm1=4)
    each = [update(0, 4, 0, samples=1, a_norm1=2)] * 2 + [update(1, 4, 0, samples=3, a_norm1=4)]
    assert aggregated(Normalised(), *twice).tolist() == aggregated(Normalised(), *each).tolist()


@given(
    deltas=st.lists(st.floats(-10, 10), min_size=1, max_size=5),
    tau_eff=st.sampled_from(["population", "sampled", "default", "steps"]),
)
def test_one_plain_step_each_is_the_mean(deltas: list[float], tau_eff: str) -> None:
    updates = [update(i, delta, 0) for i, delta in enumerate(deltas)]
    assert aggregated(Normalised(tau_eff), *updates).tolist() == aggregated(Mean(), *updates).tolist()


@pytest.mark.parametrize("rule", [Mean(), Weighted(), Normalised()])
def test_the_next_step_starts_afresh(rule: Aggregator) -> None:
    state = rule.add(update(0, 1, 1), X, X, rule.init(X, 3))
    first, state = rule.result(state)
    state = rule.add(update(1, 5, 5), X, X, state)
    second, _ = rule.result(state)
    assert (first.tolist(), second.tolist()) == ([1, 1], [5, 5])


@pytest.mark.parametrize("rule", [Mean(), Weighted(), Normalised()])
def test_a_step_of_nobody_is_refused(rule: Aggregator) -> None:
    with pytest.raises(ConfigError, match="a server step must have at least one update; got 0"):
        rule.result(rule.init(X, 3))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"tau_eff": "mean"},
            'Normalised.tau_eff must be "population", "sampled", "steps" or a number > 0; got \'mean\'',
        ),
        (
            {"tau_eff": 0.0},
            'Normalised.tau_eff must be "population", "sampled", "steps" or a number > 0; got 0.0',
        ),
        (
            {"tau_eff": None},
            'Normalised.tau_eff must be "population", "sampled", "steps" or a number > 0; got None',
        ),
        ({"weighting": "size"}, 'Normalised.weighting must be "samples" or "uniform"; got \'size\''),
    ],
)
def test_bad_parameters_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        Normalised(**arguments)


@pytest.mark.parametrize("idle_at", [0, 1])
def test_an_update_without_steps_counts_as_a_gradient_of_zero(idle_at: int) -> None:
    """tau_eff = (3 * 2 + 1 * 0) / 4, times 3/4 of 8 / 2."""
    updates = [update(0, 8, 0, samples=3, steps=2, a_norm1=2)]
    updates.insert(idle_at, update(1, 0, 0, samples=1, steps=0, a_norm1=0))
    assert aggregated(Normalised(), *updates).tolist() == [1.5 * 3.0, 0.0]


def test_updates_without_any_weight_move_nothing() -> None:
    assert aggregated(Weighted(), update(0, 1, 2, samples=0), update(1, 4, 2, samples=0)).tolist() == [
        0.0,
        0.0,
    ]


@pytest.mark.parametrize("norm", [-1.0, float("nan"), float("inf")])
def test_fednova_refuses_what_it_cannot_normalise_by(norm: float) -> None:
    with pytest.raises(ConfigError, match=r"\|\|a\|\|_1 of an update must be >= 0 to normalise by"):
        aggregated(Normalised(), update(0, 1, 1, a_norm1=norm))
