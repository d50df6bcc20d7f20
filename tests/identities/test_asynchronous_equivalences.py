"""Which asynchronous algorithm becomes which other one, and when: equalities of models, times and staleness."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedpace
from beds import LOCAL, Q3, Q3_TIMES, Q4, Q4_TIMES, Row, script, trace
from fedpace import algorithms as named
from fedpace.aggregate import Contribution, Mean, Mixing
from fedpace.pace import Scripted
from fedpace.sim import Population
from fedpace.tasks import quadratics

SOME: dict[str, Any] = {"client_lr": 0.3, "steps": 3}
speeds = st.lists(st.floats(0.25, 8.0), min_size=2, max_size=5)


def clients(count: int) -> Any:
    return quadratics(np.linspace(-3.0, 7.0, count))


def all_clients(count: int, rounds: int) -> Scripted:
    return Scripted([list(range(count))] * rounds)


@settings(max_examples=25, deadline=None)
@given(times=speeds)
def test_waiting_for_all_clients_is_fedavg_whatever_the_speeds(times: list[float]) -> None:
    """E1: DeFedAvg-IID with n = N and consuming buffers; E2: DeFedAvg-nIID that draws all clients."""
    count, devices = len(times), Population.from_times(times)
    fedavg = trace(named.fedavg(**SOME), 5, clients(count), devices)
    assert trace(named.defedavg_iid(buffer=count, **SOME), 5, clients(count), devices) == fedavg
    drawn = named.defedavg_niid(draws=count, select=all_clients(count, 5), **SOME)
    assert trace(drawn, 5, clients(count), devices) == fedavg


def test_retraining_the_same_model_is_fedavg_for_equal_speeds_only() -> None:
    """E1 with `reuse_model`."""
    reuse = named.defedavg_iid(buffer=3, reuse_model=True, **LOCAL)
    equal = Population.from_times(2.0)
    assert trace(reuse, 4, Q3, equal) == trace(named.fedavg(**LOCAL), 4, Q3, equal)
    assert trace(reuse, 4) != trace(named.fedavg(**LOCAL), 4)


@pytest.mark.parametrize("buffer", [1, 2, 3])
def test_one_local_step_is_asynchronous_sgd(buffer: int) -> None:
    """E3: AsySG with the product of the two rates; thirds round, halves do not."""
    one_step = trace(named.defedavg_iid(buffer=buffer, steps=1, client_lr=0.5, server_lr=0.5), 8)
    asysg = trace(named.asysg(buffer=buffer, server_lr=0.25, batch_size=None), 8)
    assert [replace(row, w=0.0) for row in one_step] == [replace(row, w=0.0) for row in asysg]
    tolerance = 1e-13 if buffer == 3 else 0.0
    assert [row.w for row in one_step] == pytest.approx([row.w for row in asysg], rel=tolerance, abs=0)


@settings(max_examples=15, deadline=None)
@given(times=speeds, transfer=st.sampled_from([0.0, 0.3]), buffer=st.integers(1, 3))
def test_retraining_all_clients_is_fedbuff_with_all_clients_active(
    times: list[float], transfer: float, buffer: int
) -> None:
    """E4: DeFedAvg-IID with `reuse_model` and FedBuff with Mc = N and immediate dispatch, serial links."""
    count, devices = len(times), Population.from_times(times, transfer, transfer)
    iid = named.defedavg_iid(buffer=buffer, reuse_model=True, **SOME)
    fedbuff = named.fedbuff(buffer=buffer, concurrency=count, dispatch="immediate", **SOME)
    assert trace(iid, 12, clients(count), devices) == trace(fedbuff, 12, clients(count), devices)


@settings(max_examples=15, deadline=None)
@given(
    groups=st.lists(st.lists(st.integers(0, 3), min_size=2, max_size=2, unique=True), min_size=6, max_size=6)
)
def test_replacing_all_at_work_together_is_synchronous(groups: list[list[int]]) -> None:
    """E5: batch dispatch with M = Mc has tau = 0; FedBuff then is FedAvg on the same sets, CA2FL keeps its times."""
    chosen: dict[str, Any] = {"select": Scripted(groups), **LOCAL}
    fedavg = trace(named.fedavg(clients_per_round=2, **chosen), 5, Q4, Q4_TIMES)
    assert trace(named.fedbuff(buffer=2, concurrency=2, **chosen), 5, Q4, Q4_TIMES) == fedavg
    ca2fl = trace(named.ca2fl(buffer=2, concurrency=2, **chosen), 5, Q4, Q4_TIMES)
    assert [replace(row, w=0.0) for row in ca2fl] == [replace(row, w=0.0) for row in fedavg]
    assert {tau for row in ca2fl for tau in row.tau} == {0}


@pytest.mark.parametrize("bits", [2, 4, 8, 32])
def test_a_cache_of_all_clients_present_changes_nothing(bits: int) -> None:
    """E6: CA2FL and MF-CA2FL with M = Mc = N are FedAvg, however coarse the cache."""
    task = quadratics(np.random.default_rng(0).normal(size=(4, 16)))
    devices, everyone = Q4_TIMES, {"buffer": 4, "concurrency": 4}
    fedavg = fedpace.simulate(named.fedavg(**SOME), task, devices, rounds=6)
    cached = fedpace.simulate(named.mf_ca2fl(cache_bits=bits, **everyone, **SOME), task, devices, rounds=6)
    np.testing.assert_allclose(cached.model, fedavg.model, rtol=1e-13)
    assert [r.virtual_seconds for r in cached.history] == [r.virtual_seconds for r in fedavg.history]


def some_at_work(**more: Any) -> dict[str, Any]:
    return {"buffer": 2, "concurrency": 3, **SOME, **more}


def test_thirty_two_bits_are_no_quantisation() -> None:
    """E7, to the bit."""
    task = quadratics(np.random.default_rng(1).normal(size=(5, 8)))
    plain = fedpace.simulate(named.ca2fl(**some_at_work()), task, rounds=9)
    unquantised = fedpace.simulate(named.mf_ca2fl(cache_bits=32, **some_at_work()), task, rounds=9)
    assert plain.model.tobytes() == unquantised.model.tobytes()


def test_the_first_step_with_an_empty_cache_is_fedbuffs() -> None:
    """E8."""
    task = quadratics(np.random.default_rng(2).normal(size=(5, 8)))
    steps = [
        fedpace.simulate(make(**some_at_work()), task, rounds=1).model
        for make in (named.ca2fl, named.fedbuff)
    ]
    assert steps[0].tobytes() == steps[1].tobytes()


def test_one_client_with_a_cache_is_sequential_descent() -> None:
    """E9: T steps of K local steps are T K steps of gradient descent, x_k = b (1 - (1 - eta)^k)."""
    [*_, last] = trace(
        named.ca2fl(buffer=1, concurrency=1, client_lr=0.25, steps=3), 4, quadratics([8.0]), None
    )
    assert last.w == 8 * (1 - 0.75**12)


def test_once_all_clients_were_heard_the_calibrated_update_is_the_mean_of_all() -> None:
    """E10: with eta_g = 0 and exact gradients v_t = mean_i d_i(w_0), whoever is in the buffer."""
    seen: list[float] = []

    class Noted(fedpace.server_opt.Momentum):
        def apply(self, x: Any, delta: Any, state: Any) -> Any:
            seen.append(float(delta[0]))
            return x, state

    order = script((1, 2, 3), (1, 4), (2, 3), (1, 2), (3, 4), (1, 2), (3, 4), (1, 2))
    still = replace(named.ca2fl(buffer=2, concurrency=3, select=order, **LOCAL), server_opt=Noted())
    trace(still, 8, Q4, Q4_TIMES)
    assert seen[4:] == [4.5] * 4  # mean of 3/4 (4, 8, 16, -4)
    assert seen[:4] != [4.5] * 4


@given(
    numbers=st.lists(st.integers(-64, 64), min_size=3, max_size=3), alpha=st.sampled_from([0.25, 0.5, 1.0])
)
def test_fedasync_and_fedbuff_differ_by_how_far_the_model_has_moved(numbers: list[int], alpha: float) -> None:
    """E11: alpha (start + d - x) - alpha d = alpha (start - x); equal iff tau = 0."""
    start, x, delta = (np.array([float(n)]) for n in numbers)
    update = Contribution(0, delta)
    mixing, mean = Mixing(alpha), Mean()
    mixed, _ = mixing.result(mixing.add(update, start, x, mixing.init(x, 3)))
    added, _ = mean.result(mean.add(update, start, x, mean.init(x, 3)))
    assert float(mixed[0] - alpha * added[0]) == float(alpha * (start - x)[0])


def test_a_sum_is_a_mean_with_a_larger_rate() -> None:
    """E12: AsySG with `aggregate="sum"` and rate gamma is the mean with gamma n."""
    total = named.asysg(buffer=2, server_lr=0.125, aggregate="sum", batch_size=None)
    mean = named.asysg(buffer=2, server_lr=0.25, batch_size=None)
    assert trace(total, 6) == trace(mean, 6)


def test_stretching_all_delays_changes_no_order() -> None:
    """E13: half-normal delays without a base, all scales times c: the same steps, c times later."""
    scales = np.linspace(0.5, 4.0, 12)
    algorithm = named.fedbuff(buffer=3, concurrency=6, **SOME)
    once = trace(algorithm, 20, clients(12), Population.half_normal(scales.tolist()))
    stretched = trace(algorithm, 20, clients(12), Population.half_normal((8 * scales).tolist()))
    assert [replace(row, time=8 * row.time) for row in once] == stretched


def test_equal_speeds_do_not_make_polling_synchronous() -> None:
    """E14: a stored update may be older than the newest model (A6)."""
    drawn = named.defedavg_niid(draws=2, select=script((1, 2), (3, 3)), **LOCAL)
    assert trace(drawn, 2, Q3, Population.from_times(2.0))[1] == Row(2.0, (3, 3), (1, 1), 16.5)
    assert trace(drawn, 1, Q3, Q3_TIMES)[0].w == 4.5
