"""SCAFFOLD and FedNova-VR: what client and server remember, whoever takes part. Limits: identities/test_fednova."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedpace.aggregate import Contribution
from fedpace.errors import ConfigError
from fedpace.local import SGD, Correction, Scaffold, VarianceReduced, descend
from fedpace.vector import Vector, freeze

LOCAL = SGD(0.5, steps=2)
CENTERS = np.array([1.0, 2.0, 4.0, -8.0])


def session(rule: Correction, memory: Vector | None, control: Vector, client: int, x: Vector) -> Any:
    """One solve on (x - center)^2 / 2: what is sent, the next memory."""
    added = rule.before(memory, freeze(control.copy()))
    delta = freeze(descend(lambda y, k: y - CENTERS[client], x, LOCAL, 2, added))
    return rule.after(memory, added, delta, LOCAL.a_norm1(2), LOCAL.lr)


def play(rule: Correction, rounds: list[list[int]]) -> tuple[Any, dict[int, Vector]]:
    x, memory = np.zeros(1), {}
    state = rule.init(x, len(CENTERS))
    for members in rounds:
        control = rule.broadcast(state)
        for client in members:
            sent, memory[client] = session(rule, memory.get(client), control, client, x)
            state = rule.fold(Contribution(client, np.zeros(1), samples=1.0 + client), freeze(sent), state)
        state = rule.stepped(state)
        x = x + 1.0
    return state, memory


_rounds = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=4, unique=True), min_size=1, max_size=6)


@given(rounds=_rounds)
def test_scaffolds_c_is_the_mean_of_all_c_i(rounds: list[list[int]]) -> None:
    """Whoever takes part; clients not seen yet have c_i = 0."""
    state, memory = play(Scaffold(), rounds)
    mean = sum(memory.values(), np.zeros(1)) / len(CENTERS)
    np.testing.assert_allclose(Scaffold().broadcast(state), mean, atol=1e-12)


@given(rounds=_rounds, weighting=st.sampled_from(["samples", "uniform"]))
def test_corrections_of_those_seen_sum_to_zero(rounds: list[list[int]], weighting: str) -> None:
    rule = VarianceReduced(weighting=weighting)
    state, memory = play(rule, rounds)
    shares = {client: 1.0 + client if weighting == "samples" else 1.0 for client in memory}
    total = sum(shares[client] * rule.before(memory[client], rule.broadcast(state)) for client in memory)
    np.testing.assert_allclose(total, 0, atol=1e-11)


def test_scaffold_option_two_by_hand() -> None:
    """c_i+ = c_i - c + (x - y) / (K lr): from x = 0, two steps of 1/2 on a center at 1.

    With c_i = 1/4, c = 1/2 every gradient is y - 1 + 1/4, so y ends at 3/4 (1 - 1/4) = 9/16.
    """
    sent, memory = session(Scaffold(), np.array([0.25]), np.array([0.5]), 0, np.zeros(1))
    assert memory.tolist() == [0.25 - 0.5 - (9 / 16) / (2 * 0.5)]
    assert sent.tolist() == [memory[0] - 0.25]


def test_a_newcomer_to_scaffold_has_c_i_zero_and_to_fednova_vr_adds_nothing() -> None:
    control = np.array([0.5])
    assert Scaffold().before(None, control).tolist() == [0.5]
    assert VarianceReduced().before(None, control) is None


def test_the_memory_is_the_mean_gradient_of_the_session_even_if_it_changed_meanwhile() -> None:
    """A session that began before the last one was acknowledged: its own correction counts, not today's."""
    x, began_with, today = np.zeros(1), np.array([0.5]), np.array([0.125])
    delta = descend(lambda y, k: y - 1.0, x, LOCAL, 2, began_with)
    for rule in (Scaffold(), VarianceReduced()):
        sent, memory = rule.after(today, began_with, delta, 2.0, 0.5)
        own = -delta / (0.5 * 2.0) - began_with
        assert memory.tolist() == own.tolist()
        assert sent.tolist() == (own - today).tolist()


def test_what_is_folded_in_is_broadcast_after_the_step() -> None:
    for rule in (Scaffold(), VarianceReduced()):
        state = rule.init(np.zeros(1), 4)
        state = rule.fold(Contribution(0, np.zeros(1)), np.array([4.0]), state)
        assert rule.broadcast(state).tolist() == [0.0]
        assert rule.broadcast(rule.stepped(state)).tolist() == [1.0 if rule == Scaffold() else 4.0]


def test_bad_weighting_is_named() -> None:
    with pytest.raises(ConfigError, match='VarianceReduced.weighting must be "samples" or "uniform"; got'):
        VarianceReduced(weighting="size")
