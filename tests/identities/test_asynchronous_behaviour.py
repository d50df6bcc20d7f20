"""What the asynchronous algorithms are for, shown on quadratics with exact gradients (F1-F3 of the specification)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedpace
from fedpace import algorithms as named
from fedpace.algorithm import Algorithm
from fedpace.compute import Inline
from fedpace.record import Run
from fedpace.sim import Population
from fedpace.sim.prepare import prepare
from fedpace.tasks import quadratics

TEN = quadratics(np.arange(10.0))  # client i pulls to i; the optimum is 4.5
LOCAL: dict[str, Any] = {"client_lr": 0.1, "steps": 1, "server_lr": 0.2}
BUFFERED: dict[str, Any] = {"buffer": 2, "concurrency": 5, **LOCAL}
# client i takes i + 1 seconds; the jitter breaks ties
SLOWER_AND_SLOWER = Population(solve_s=tuple(np.arange(1.0, 11.0)), noise_s=1e-3)


def run(algorithm: Algorithm, rounds: int, task: Any = TEN, seed: int = 0) -> Run:
    return fedpace.simulate(
        algorithm,
        task,
        SLOWER_AND_SLOWER,
        rounds=rounds,
        seed=seed,
        keep_models=True,
        evaluate_every=None,
        traces=False,
    )


def tail(finished: Run, share: float = 0.5) -> Any:
    models = np.array(finished.models)
    return models[int(len(models) * (1 - share)) :]


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_the_cache_removes_the_bias_of_fast_clients(seed: int) -> None:
    """F1: CA2FL ends at 4.5; FedBuff hovers 0.3 to 0.9 below it, where the fast clients are."""
    cached = tail(run(named.ca2fl(**BUFFERED), 1400, seed=seed), share=0.05)
    assert abs(cached - 4.5).max() < 1e-9
    plain = tail(run(named.fedbuff(**BUFFERED), 800, seed=seed))
    assert 0.3 < 4.5 - plain.mean() < 0.9
    assert 0.05 < plain.std() < 0.3


@pytest.mark.parametrize("rounds", [600, pytest.param(4000, marks=pytest.mark.long)])
def test_drawing_whose_update_to_use_removes_the_bias_of_speed(rounds: int) -> None:
    """F2: nIID ends near 4.5, IID near sum(i / T_i) / sum(1 / T_i) = 2.414; unbiasedness costs time."""
    biased_limit = np.sum(np.arange(10) / np.arange(1, 11)) / np.sum(1 / np.arange(1, 11))
    assert biased_limit == pytest.approx(2.414, abs=5e-4)
    niid = run(named.defedavg_niid(draws=2, **LOCAL), rounds)
    iid = run(named.defedavg_iid(buffer=2, reuse_model=True, **LOCAL), rounds)
    assert tail(niid).mean() == pytest.approx(4.46, abs=0.2)
    assert tail(iid).mean() == pytest.approx(biased_limit, abs=0.06)
    assert 3 < niid.virtual_seconds / iid.virtual_seconds < 5
    assert shares(iid) == pytest.approx((0.336, 0.034), abs=0.01)
    assert shares(niid) == pytest.approx((0.1, 0.1), abs=5 * np.sqrt(0.09 / (2 * rounds)))
    ages = [tau for record in iid.history for tau in record.staleness]
    assert np.mean(ages) == pytest.approx(4.5, abs=0.05)  # (N - 1) / n


def shares(finished: Run) -> tuple[float, float]:
    """Of the fastest and of the slowest client."""
    members = [client for record in finished.history for client in record.clients]
    return members.count(0) / len(members), members.count(9) / len(members)


def error_and_drift(algorithm: Algorithm, rounds: int) -> tuple[float, float]:
    """||w - mean b|| over the last tenth, and how far h_bar is from the mean of the rows, in 64 dimensions."""
    task = quadratics(3 * np.random.default_rng(0).normal(size=(10, 64)))
    simulation = prepare(algorithm, task, SLOWER_AND_SLOWER, Inline(task), rounds=rounds)
    simulation.begin()
    distances = []
    for version in range(int(0.9 * rounds), rounds):
        simulation.run(version + 1)
        distances.append(float(np.linalg.norm(simulation.server.model - task.optimum)))
    state = simulation.server.state.aggregate
    if not hasattr(state, "rows"):
        return float(np.mean(distances)), 0.0
    rows = [algorithm.aggregate.row(client, state) for client in range(10)]
    return float(np.mean(distances)), float(np.abs(np.mean(rows, axis=0) - state.mean).max())


@pytest.mark.parametrize("rounds", [400, pytest.param(3000, marks=pytest.mark.long)])
def test_fewer_bits_in_the_cache_leave_more_bias(rounds: int) -> None:
    """F3: 32 < 8 < 4 < 2 bits < no cache; h_bar stays the mean of the rows."""
    bits = [error_and_drift(named.mf_ca2fl(cache_bits=b, **BUFFERED), rounds) for b in (32, 8, 4, 2)]
    errors = [error for error, _ in bits] + [error_and_drift(named.fedbuff(**BUFFERED), rounds)[0]]
    assert errors == sorted(errors)
    assert max(drift for _, drift in bits) < 1e-12
    if rounds == 3000:
        assert errors[0] < 1e-12
        for error, (low, high) in zip(
            errors[1:], ((0.006, 0.013), (0.1, 0.22), (0.8, 1.5), (1.3, 2.3)), strict=True
        ):
            assert low < error < high
