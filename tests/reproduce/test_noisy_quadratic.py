"""The task in which gradient noise decides: its gradients, and what averaging them is worth."""

from __future__ import annotations

import numpy as np
import pytest

from fedpace.compute import Request
from fedpace.local import SGD
from fedpace.reproduce.defedavg.noisy_quadratic import SIZE, NoisyQuadratic


def request(client: int, session: int, steps: int = 1, lr: float = 0.25, seed: int = 0) -> Request:
    start = np.zeros(SIZE)
    local = SGD(lr=lr, steps=steps, batch_size=1)
    return Request(
        client=client,
        data=client,
        session=session,
        start=start,
        version=0,
        local=local,
        steps=steps,
        seed=seed,
    )


def test_without_noise_a_client_goes_the_exact_part_of_the_way() -> None:
    task = NoisyQuadratic(3, variance=0.0)(0)
    delta = task.solve(request(0, 1, steps=2))
    np.testing.assert_allclose(delta, (1 - 0.75**2) * task.minimum, rtol=1e-15)
    assert task.evaluate(task.initial(0)) == pytest.approx({"loss": 0.5, "accuracy": 0.0})
    assert task.evaluate(task.minimum) == {"loss": 0.0, "accuracy": 1.0}


def test_the_noise_of_a_gradient_has_the_stated_variance_and_is_its_sessions_own() -> None:
    task = NoisyQuadratic(3, variance=100.0)(0)
    noise = [task.solve(request(0, session)) / 0.25 - task.minimum for session in range(400)]
    assert np.mean([np.sum(n**2) for n in noise]) == pytest.approx(100.0, rel=0.02)
    assert np.sum(np.mean(noise, axis=0) ** 2) == pytest.approx(100.0 / 400, rel=0.5)
    same, other = (task.solve(request(0, session)) for session in (7, 8))
    np.testing.assert_array_equal(same, task.solve(request(0, 7)))
    for differing in (other, task.solve(request(1, 7)), task.solve(request(0, 7, seed=1))):
        assert not np.array_equal(same, differing)
