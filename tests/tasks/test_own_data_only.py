"""A machine that holds its own data only trains as the client it is among all others."""

from __future__ import annotations

import numpy as np
import pytest
from tests.tasks.kinds import SOLVING, ask, task_of


@pytest.mark.parametrize("rule", ["plain", "all"])
@pytest.mark.parametrize("kind", SOLVING)
def test_client_3_alone_gives_the_bits_of_client_3_among_five(kind: str, rule: str) -> None:
    all_clients, alone = task_of(kind, range(5)), task_of(kind, [3])
    expected = all_clients.solve(ask(all_clients, rule, client=3, data=3))
    assert np.array_equal(alone.solve(ask(alone, rule, client=3, data=0)), expected)
    assert not np.array_equal(all_clients.solve(ask(all_clients, rule, client=3, data=0)), expected)


@pytest.mark.parametrize("kind", ["softmax", "cnn", "tanh", "dropout"])
def test_the_client_names_the_random_streams(kind: str) -> None:
    alone = task_of(kind, [3])
    deltas = [alone.solve(ask(alone, "plain", client=client, data=0)) for client in (3, 4)]
    assert not np.array_equal(*deltas)


def test_in_a_lane_of_its_own_too() -> None:
    all_clients, alone = task_of("softplus", range(5)), task_of("softplus", [3])
    requests = [ask(all_clients, "all", client=client, data=client) for client in range(5)]
    own = ask(alone, "all", client=3, data=0)
    (delta,) = alone.solve_together([own])
    assert alone.lane(own) == all_clients.lane(requests[3]) == 3
    assert np.array_equal(delta, all_clients.solve_together(requests)[3])
