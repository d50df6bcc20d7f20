"""What every local rule and every correction promises."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from fedpace.aggregate.protocol import Contribution
from fedpace.check.plain import assert_plain
from fedpace.check.purity import assert_value, pure
from fedpace.local import SGD, Correction, descend
from fedpace.random import stream
from fedpace.vector import Vector, freeze


def check_work(local: Any, *, clients: int = 2, rounds: int = 2, seed: int = 0) -> None:
    """Its work is decided by its stream, and no more than it says."""
    assert_value(local)
    most = local.max_work(25.0)
    for client in range(clients):
        for round in range(rounds):
            one, two = (
                local.work(client, round, 25.0, 0.1, stream(seed, "work", client, round)) for _ in range(2)
            )
            assert isinstance(one, int) and one >= 1, (
                f"{local}: a session must take at least one step; got {one}"
            )
            assert one == two, f"{local}: the same stream gave {one} and {two} steps"
            assert most is None or one <= most, f"{local}: {one} steps are more than max_work says, {most}"


def check_local(local: SGD, *, steps: int = 6, clients: int = 2, rounds: int = 2, seed: int = 0) -> None:
    """Its work is decided by its stream, and its a-vector is what its steps make of gradients."""
    check_work(local, clients=clients, rounds=rounds, seed=seed)
    a, norm1 = local.a_vector(steps), local.a_norm1(steps)
    np.testing.assert_allclose(
        impulse_response(local, steps), a, rtol=1e-9, atol=1e-12, err_msg=f"{local}: a-vector"
    )
    assert np.isclose(norm1, np.abs(a).sum(), rtol=1e-9), (
        f"{local}: a_norm1 is {norm1}, the sum {np.abs(a).sum()}"
    )


def impulse_response(local: SGD, steps: int) -> Vector:
    """a_k measured: −delta / lr when the gradient is 1 at step k and 0 at all others."""
    deltas = [descend(partial(_pulse, at), np.zeros(1), local, steps) for at in range(steps)]
    return -np.concatenate(deltas) / local.lr


def _pulse(at: int, y: Vector, k: int) -> Vector:
    return np.array([float(k == at)])


def check_correction(rule: Correction, *, clients: int = 3, rounds: int = 4, seed: int = 0) -> None:
    """Writes to nothing it was given, broadcasts after the step only, and vanishes where clients agree.

    "Agree": all clients have the same gradient. Then, once all clients were seen, nothing is to be corrected.
    """
    assert_value(rule)
    local, x = SGD(0.125, steps=2), freeze(np.random.default_rng(seed).normal(size=3))
    state, memories = rule.init(x, clients), dict[int, Vector]()
    for _ in range(rounds):
        control = freeze(rule.broadcast(state).copy())
        for client in range(clients):
            memory = memories.get(client)
            added = pure(rule, "before", memory, control)
            delta = freeze(descend(lambda y, k: np.ones(3), x, local, 2, added))
            weight, lr = local.a_norm1(2), local.lr
            sent, memories[client] = pure(rule, "after", memory, added, delta, weight, lr)
            update = Contribution(client, delta, steps=2, a_norm1=weight)
            state = pure(rule, "fold", update, sent.copy(), state)
        assert np.array_equal(rule.broadcast(state), control), f"{rule}: broadcast changed before the step"
        assert_plain(state, f"{rule}: the state")
        state = pure(rule, "stepped", state)
    _check_agreement(rule, state, memories)


def _check_agreement(rule: Correction, state: Any, memories: dict[int, Vector]) -> None:
    for client, memory in memories.items():
        left = rule.before(memory, rule.broadcast(state))
        agreed = left is None or np.allclose(left, 0, atol=1e-12)
        assert agreed, f"{rule}: client {client} is corrected although all clients agree"
