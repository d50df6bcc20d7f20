"""Autonomous FedGM, Algorithm 4 of Sun et al., AAAI 2024, on the virtual clock and in the paper's own replayed form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedpace
from fedpace import algorithms as named
from fedpace.algorithm import Algorithm
from fedpace.compute import Inline
from fedpace.sim import Population
from fedpace.sim.prepare import prepare
from fedpace.tasks import quadratics

THREE = quadratics([1.0, -2.0, 4.0])
LOCAL: dict[str, Any] = {"client_lr": 0.1, "steps": 4}


def model_and_buffer(algorithm: Algorithm, rounds: int = 12) -> tuple[float, float]:
    simulation = prepare(algorithm, THREE, None, Inline(THREE), rounds=rounds)
    simulation.begin()
    simulation.run(rounds)
    server = simulation.server
    return float(server.model[0]), float(server.state.opt.inner.b[0])


def staged(scale: float) -> dict[str, Any]:
    """Stages of 4 and 8 steps: eta = (.5, .25) scaled, beta = (.5, 2/3), nu = .8."""
    return {"server_lr": (0.5 * scale, 0.25 * scale), "rounds": 12, "beta": 0.5, "nu": 0.8}


FORMS: dict[str, dict[str, Any]] = {
    "replayed": {"history": 1},
    "event-driven": {"buffer": 3, "concurrency": 3},
    "event-driven, batch": {"buffer": 3, "concurrency": 3, "dispatch": "batch"},
}


def test_multistage_fedgm_golden_run() -> None:
    """G9a. The paper's buffer has the other sign."""
    x, b = model_and_buffer(named.multistage_fedgm(**staged(1.0), **LOCAL))
    assert (x, b) == pytest.approx((0.780987942315, 0.108789394892), abs=5e-13)


@pytest.mark.parametrize("form", FORMS)
def test_without_delay_it_is_multistage_fedgm_but_for_the_factor_k(form: str) -> None:
    """G9a: dividing by K = 4 needs rates four times as large, and leaves a quarter of the buffer."""
    x, b = model_and_buffer(named.autonomous_fedgm(**staged(4.0), **FORMS[form], **LOCAL))
    assert (x, 4 * b) == pytest.approx((0.780987942315, 0.108789394892), abs=5e-13)


@pytest.mark.parametrize("k_ref", [4, "mean"])
@pytest.mark.parametrize("form", FORMS)
def test_a_reference_k_recovers_multistage_fedgm(form: str, k_ref: float | str) -> None:
    x, b = model_and_buffer(named.autonomous_fedgm(k_ref=k_ref, **staged(1.0), **FORMS[form], **LOCAL))
    assert (x, b) == pytest.approx((0.780987942315, 0.108789394892), abs=5e-13)


def test_stale_golden_run() -> None:
    """G9b: (client, K, delay) t0 (0,1,0) (1,2,0); t1 (0,2,1) (1,1,0); t2 (0,1,2) (1,3,1)."""
    algorithm = named.autonomous_fedgm(
        client_lr=0.5,
        steps=[[1, 2], [2, 1], [1, 3]],
        history=3,
        delays=[[0, 0], [1, 0], [2, 1]],
        server_lr=1.0,
        beta=0.5,
        nu=0.5,
    )
    task = quadratics([0.0, 4.0], initial=2.0)
    finished = fedpace.simulate(algorithm, task, rounds=3, keep_models=True)
    models = [float(x[0]) for x in finished.models or ()]
    assert models == pytest.approx([1.90625, 2.001953125, 1.86669921875], abs=1e-15)
    assert [record.staleness for record in finished.history] == [(0, 0), (1, 0), (2, 1)]


def test_stale_golden_run_on_the_clock() -> None:
    """The first two steps of G9b, with the delay made by the clock.

    Client 2 is a twin of client 0: it takes its two steps from version 0 and arrives for the second step.
    """
    algorithm = named.autonomous_fedgm(
        client_lr=0.5,
        steps=[[1, 2, 2, 1], [1, 1, 2, 1]],
        buffer=2,
        concurrency=3,
        dispatch="batch",
        select=[[0, 1, 2], [1, 3]],
        server_lr=1.0,
        beta=0.5,
        nu=0.5,
    )
    task = quadratics([0.0, 4.0, 0.0, 0.0], initial=2.0)
    devices = Population.from_times((2.0, 1.75, 3.0, 100.0))
    finished = fedpace.simulate(algorithm, task, devices, rounds=2, keep_models=True)
    assert [float(x[0]) for x in finished.models or ()] == pytest.approx([1.90625, 2.001953125], abs=1e-15)
    assert [record.staleness for record in finished.history] == [(0, 0), (1, 0)]
    assert [record.clients for record in finished.history] == [(1, 0), (2, 1)]


def test_without_delay_and_momentum_it_is_fednova() -> None:
    """G9c: eta = 2, nu = 0 is FedNova with uniform weights and tau_eff = 2."""
    task, unequal = quadratics([1.0, 2.0, 6.0]), {"client_lr": 0.1, "steps": [1, 2, 5]}
    autonomous = named.autonomous_fedgm(server_lr=2.0, beta=0.0, nu=0.0, history=1, **unequal)
    fednova = named.fednova(tau_eff=2.0, weighting="uniform", **unequal)
    ends = [fedpace.simulate(algorithm, task, rounds=1).model for algorithm in (autonomous, fednova)]
    np.testing.assert_allclose(ends, 0.520941333333, rtol=0, atol=5e-13)
