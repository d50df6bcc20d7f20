"""Personalisation against transcriptions of the papers' listings, and against algebra on quadratics."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import fedpace
from fedpace import algorithms
from fedpace.algorithm import Algorithm
from fedpace.compute import Inline
from fedpace.compute.personal import personal_task
from fedpace.errors import ConfigError
from fedpace.link import TopK
from fedpace.local import SGD, Ditto, Private, Torch
from fedpace.pace import Buffered, Rounds, Scripted
from fedpace.sim import Population
from fedpace.sim.hostile import Hostile
from fedpace.sim.prepare import prepare
from fedpace.sim.simulation import Simulation
from fedpace.tasks import quadratics
from fedpace.vector import Layout

CLIENTS, BODY, HEAD, LR, STEPS, ROUNDS = 3, 2, 1, 0.125, 2, 4
SIZE = BODY + HEAD
RNG = np.random.default_rng(7)
CENTERS = RNG.normal(size=(CLIENTS, SIZE))
ROOTS = RNG.normal(size=(CLIENTS, SIZE, SIZE)) / 2
CURVED = np.einsum("nij,nkj->nik", ROOTS, ROOTS) + np.eye(SIZE)


def task() -> Any:
    """Quadratics with a body and a head that depend on each other."""
    made = quadratics(CENTERS, CURVED, initial=0.5)
    made.layout = Layout.of({"body": (BODY,), "head": (HEAD,)})
    return made


def gradient(client: int, y: np.ndarray) -> np.ndarray:
    return CURVED[client] @ (y - CENTERS[client])


def simulated(algorithm: Algorithm, on: Any = None, rounds: int = ROUNDS) -> Simulation:
    whole = personal_task(task() if on is None else on, algorithm, 0)
    simulation = prepare(algorithm, whole, None, Inline(whole), rounds=rounds)
    simulation.begin()
    simulation.run(rounds)
    return simulation


def kept(simulation: Simulation) -> np.ndarray:
    return np.stack([simulation.clients[k].state.kept for k in range(CLIENTS)])


SHARED = {"client_lr": LR, "steps": STEPS, "batch_size": None}


# ---------------------------------------------------------------- private parameters


def test_fedper_is_its_listing() -> None:
    """Arivazhagan et al., Algorithm 1: SGD on (w, v_i) together; the server averages w."""
    simulation = simulated(algorithms.fedper(private="head", **SHARED))
    w, v = np.full(BODY, 0.5), np.full((CLIENTS, HEAD), 0.5)
    for _ in range(ROUNDS):
        ends = []
        for k in range(CLIENTS):
            y = np.concatenate([w, v[k]])
            for _ in range(STEPS):
                y = y - LR * gradient(k, y)
            ends.append(y[:BODY])
            v[k] = y[BODY:]
        w = np.mean(ends, axis=0)
    np.testing.assert_allclose(simulation.server.model, w, rtol=1e-12)
    np.testing.assert_allclose(kept(simulation), v, rtol=1e-12)


def test_fedper_with_one_step_minimises_over_all_heads_and_one_body() -> None:
    """At rest Σ ∂_w F_i(w, v_i) = 0 and ∂_v F_i(w, v_i) = 0: one linear system for w and all v_i."""
    simulation = simulated(
        algorithms.fedper(private="head", client_lr=0.2, steps=1, batch_size=None), rounds=400
    )
    whole = np.zeros((BODY + CLIENTS * HEAD,) * 2)
    right = np.zeros(len(whole))
    for k in range(CLIENTS):
        mine = [*range(BODY), *(BODY + k * HEAD + j for j in range(HEAD))]
        whole[np.ix_(mine, mine)] += CURVED[k]
        right[mine] += CURVED[k] @ CENTERS[k]
    optimum = np.linalg.solve(whole, right)
    np.testing.assert_allclose(simulation.server.model, optimum[:BODY], atol=1e-9)
    np.testing.assert_allclose(kept(simulation).reshape(-1), optimum[BODY:], atol=1e-9)


def test_fedrep_trains_the_head_first_and_then_the_body_under_it() -> None:
    """Collins et al., Algorithm 1."""
    head = SGD(0.25, steps=3)
    algorithm = Algorithm(local=SGD(LR, steps=STEPS), personal=Private("head", head))
    simulation = simulated(algorithm)
    w, v = np.full(BODY, 0.5), np.full((CLIENTS, HEAD), 0.5)
    for _ in range(ROUNDS):
        ends = []
        for k in range(CLIENTS):
            y = np.concatenate([w, v[k]])
            for _ in range(3):
                y[BODY:] -= 0.25 * gradient(k, y)[BODY:]
            for _ in range(STEPS):
                y[:BODY] -= LR * gradient(k, y)[:BODY]
            ends.append(y[:BODY])
            v[k] = y[BODY:]
        w = np.mean(ends, axis=0)
    np.testing.assert_allclose(simulation.server.model, w, rtol=1e-12)
    np.testing.assert_allclose(kept(simulation), v, rtol=1e-12)


def test_steps_of_the_head_take_their_time() -> None:
    """Three steps of the head and two of the body, a second each."""
    algorithm = Algorithm(local=SGD(LR, steps=2), personal=Private("head", SGD(LR, steps=3)))
    run = fedpace.simulate(algorithm, task(), Population(step_s=1.0), rounds=2)
    assert [record.virtual_seconds for record in run.history] == [5.0, 10.0]


def with_batch_norm() -> Any:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))
    generator = torch.Generator().manual_seed(1)
    clients = [
        (torch.randn(8, 3, generator=generator) * (1 + k), torch.arange(8) % 2) for k in range(CLIENTS)
    ]
    return fedpace.tasks.from_torch(module, nn.CrossEntropyLoss(), clients, clients[0])


def test_fedbn_keeps_the_parameters_of_batch_norm_and_sends_the_others() -> None:
    chosen, named = simulated(algorithms.fedbn(steps=2), with_batch_norm()), Private(("1.*",))
    by_name = simulated(replace(algorithms.fedper(steps=2), personal=named), with_batch_norm())
    assert chosen.task.layout.names == ("0.weight", "0.bias", "3.weight", "3.bias")
    assert chosen.server.model.tobytes() == by_name.server.model.tobytes()
    assert kept(chosen).shape == (CLIENTS, 8) and len({row.tobytes() for row in kept(chosen)}) == CLIENTS


def test_only_the_other_parameters_are_sent() -> None:
    """Bytes are those of a model that has nothing else, and codecs choose among these coordinates alone."""
    small = quadratics(CENTERS[:, :BODY], CURVED[:, :BODY, :BODY], initial=0.5)
    for up in (Algorithm(local=SGD(LR, steps=1)).up, TopK(0.5)):
        plain = Algorithm(local=SGD(LR, steps=1), up=up)
        private = fedpace.simulate(replace(plain, personal=Private("head")), task(), rounds=1).final
        expected = fedpace.simulate(plain, small, rounds=1).final
        assert private["bytes_up"] == expected["bytes_up"] and private["bytes_down"] == expected["bytes_down"]


def test_a_client_that_was_not_heard_keeps_its_memory() -> None:
    """Client 2 never takes part; what client 0 keeps is that of its own sessions alone."""
    pace = Rounds(1, Scripted(((0,), (1,), (0,))))
    algorithm = replace(algorithms.fedper(private="head", **SHARED), pace=pace)
    simulation = simulated(algorithm, rounds=3)
    assert 2 not in simulation.clients and simulation.clients[0].state.sessions == 2
    run = fedpace.simulate(algorithm, task(), rounds=3)
    assert run.model.tobytes() == simulation.server.model.tobytes()


# ---------------------------------------------------------------- Ditto


@pytest.mark.parametrize("clients_per_round", [None, 2])
def test_ditto_leaves_the_global_model_alone(clients_per_round: int | None) -> None:
    """Bit for bit, with batches drawn at random."""
    digits = fedpace.tasks.load("digits", clients=4, model="mlp:8")
    options = {"clients_per_round": clients_per_round, "client_lr": 0.1, "steps": 3}
    plain = fedpace.simulate(algorithms.fedavg(**options), digits, rounds=3, keep_models=True)
    beside = fedpace.simulate(algorithms.ditto(lam=0.5, **options), digits, rounds=3, keep_models=True)
    assert [x.tobytes() for x in beside.models] == [x.tobytes() for x in plain.models]


def test_dittos_personal_model_is_its_listing() -> None:
    """Li et al., Algorithm 1: v ← v − η (∇F(v) + λ (v − w)) with w the model received."""
    lam = 0.75
    simulation = simulated(algorithms.ditto(lam=lam, **SHARED))
    models = fedpace.simulate(algorithms.fedavg(**SHARED), task(), rounds=ROUNDS, keep_models=True).models
    v = np.full((CLIENTS, SIZE), 0.5)
    for w in [np.full(SIZE, 0.5), *models[:-1]]:
        for k in range(CLIENTS):
            for _ in range(STEPS):
                v[k] = v[k] - LR * (gradient(k, v[k]) + lam * (v[k] - w))
    np.testing.assert_allclose(kept(simulation), v, rtol=1e-12)


def test_dittos_personal_model_rests_between_its_own_optimum_and_the_global_one() -> None:
    """(H + λ) v = H b + λ w at rest; λ = 0 is local training alone."""
    for lam in (0.0, 0.5):
        simulation = simulated(algorithms.ditto(lam=lam, client_lr=0.1, steps=5, batch_size=None), rounds=120)
        w = simulation.server.model
        for k, v in enumerate(kept(simulation)):
            expected = np.linalg.solve(CURVED[k] + lam * np.eye(SIZE), CURVED[k] @ CENTERS[k] + lam * w)
            np.testing.assert_allclose(v, expected, atol=1e-9)


# ---------------------------------------------------------------- FedDyn


def test_feddyn_is_its_listing_with_partial_participation() -> None:
    """Acar et al., Algorithm 1, its minimisation by gradient steps: m clients, P of them in a round."""
    alpha, cohorts = 0.5, ((0, 2), (1, 2), (0, 1))
    algorithm = replace(algorithms.feddyn(prox_mu=alpha, **SHARED), pace=Rounds(2, Scripted(cohorts)))
    simulation = simulated(algorithm, rounds=3)
    x, h, g = np.full(SIZE, 0.5), np.zeros(SIZE), np.zeros((CLIENTS, SIZE))
    for cohort in cohorts:
        ends = {}
        for k in cohort:
            y = x
            for _ in range(STEPS):
                y = y - LR * (gradient(k, y) - g[k] + alpha * (y - x))
            ends[k] = y
            g[k] = g[k] - alpha * (y - x)
        h = h - alpha * sum(y - x for y in ends.values()) / CLIENTS
        x = np.mean(list(ends.values()), axis=0) - h / alpha
    np.testing.assert_allclose(simulation.server.model, x, rtol=1e-12)
    np.testing.assert_allclose(kept(simulation), g, rtol=1e-12)


def test_feddyn_rests_at_the_optimum_and_fedavg_does_not() -> None:
    """With several local steps and unequal curvatures: Σ ∇F_i = 0 exactly, where averaging has a bias."""
    options = {"client_lr": 0.1, "steps": 5, "batch_size": None}
    optimum = task().optimum
    dynamic = simulated(algorithms.feddyn(prox_mu=1.0, **options), rounds=400)
    np.testing.assert_allclose(dynamic.server.model, optimum, atol=1e-9)
    for k, g in enumerate(kept(dynamic)):
        np.testing.assert_allclose(g, gradient(k, optimum), atol=1e-8)
    averaged = simulated(algorithms.fedavg(**options), rounds=400)
    assert np.linalg.norm(averaged.server.model - optimum) > 1e-2


# ---------------------------------------------------------------- one result, however it is computed

RULES: dict[str, Algorithm] = {
    "fedper": algorithms.fedper(client_lr=0.1, steps=2, clients_per_round=3),
    "fedper, asynchronous": replace(algorithms.fedper(client_lr=0.1, steps=2), pace=Buffered(2, 3)),
    "fedper by Adam": Algorithm(local=Torch("torch.optim.Adam", steps=2, lr=0.01), personal=Private()),
    "fedrep": algorithms.fedrep(client_lr=0.1, steps=1, head_epochs=1, clients_per_round=2, batch_size=50),
    "ditto": algorithms.ditto(client_lr=0.1, steps=2, clients_per_round=3),
    "feddyn": algorithms.feddyn(client_lr=0.1, steps=2, clients_per_round=3),
}
QUICK = ("fedper, asynchronous", "fedrep", "ditto")
several = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.long) for name in RULES]
)  # each kind of memory; the others by `--all` only
DEVICES = Population.from_times((1.0, 1.7, 2.9, 0.6), drop=0.2)
DIGITS = fedpace.tasks.load("digits", clients=4, partition="shards:2", model="mlp:8")


@several
def test_workers_engines_and_eagerness_change_nothing(name: str, tmp_path) -> None:
    whole = fedpace.simulate(RULES[name], DIGITS, DEVICES, rounds=4, compute="inline")
    for options in (
        {"workers": 1, "compute": "pool"},
        {"workers": 2, "compute": "pool"},
        {"compute": "vectorised"},
        {"eager": True},
        {"spill": str(tmp_path)},
    ):
        again = fedpace.simulate(RULES[name], DIGITS, DEVICES, rounds=4, **options)
        assert again.model.tobytes() == whole.model.tobytes(), options


@several
def test_a_resumed_run_is_the_same(name: str, tmp_path) -> None:
    whole = fedpace.simulate(RULES[name], DIGITS, DEVICES, rounds=5)
    stop = {"virtual_seconds": whole.history[2].virtual_seconds}
    fedpace.simulate(RULES[name], DIGITS, DEVICES, rounds=5, checkpoint=tmp_path, stop=stop)
    resumed = fedpace.simulate(RULES[name], DIGITS, DEVICES, rounds=5, checkpoint=tmp_path)
    assert resumed.model.tobytes() == whole.model.tobytes()


def test_hostile_clients_keep_their_memories_too() -> None:
    """Flipped labels reach the private head; an attack on the update leaves the memory as it was trained."""
    for attack in ("label_flip", "sign_flip", "ipm"):
        devices = Population(hostile=Hostile(0.5, attack))
        one, two = (
            fedpace.simulate(RULES["fedper"], DIGITS, devices, rounds=2, workers=workers)
            for workers in (1, 2)
        )
        assert one.model.tobytes() == two.model.tobytes()
    with pytest.raises(ConfigError, match="one with class labels, for label_flip"):
        fedpace.simulate(
            algorithms.fedper(private="head"),
            task(),
            Population(hostile=Hostile(0.5, "label_flip")),
            rounds=1,
        )


def test_the_saved_model_has_the_private_tensors_it_began_with() -> None:
    run = fedpace.simulate(RULES["fedper"], DIGITS, rounds=1)
    before = DIGITS.layout.split(DIGITS.initial(0))
    assert set(run.layout.names) | set(run.other_tensors()) >= set(DIGITS.layout.names)
    for name in set(DIGITS.layout.names) - set(run.layout.names):
        np.testing.assert_array_equal(run.other_tensors()[name], before[name])


# ---------------------------------------------------------------- what cannot be meant


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        ("tail", "private must fit the name of a parameter .body, head.; got 'tail'"),
        ("*", "patterns that leave some parameters to share"),
        ((), "patterns of parameter names, such as 'head"),
        (3, "patterns of parameter names, such as 'head"),
    ],
)
def test_patterns_without_a_meaning_are_refused(patterns: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        fedpace.simulate(algorithms.fedper(private=patterns), task(), rounds=1)


def test_the_last_layer_of_a_model_with_one_layer_is_not_private() -> None:
    run = fedpace.simulate(algorithms.fedper(**SHARED), quadratics(CENTERS), rounds=2)
    plain = fedpace.simulate(algorithms.fedavg(**SHARED), quadratics(CENTERS), rounds=2)
    assert run.model.tobytes() == plain.model.tobytes()


def test_a_task_that_cannot_leave_parameters_as_they_are_is_refused() -> None:
    own = task()
    own.freezes = False
    with pytest.raises(ConfigError, match="one that can leave parameters as they are"):
        fedpace.simulate(algorithms.fedrep(private="head"), own, rounds=1)


def test_ditto_takes_plain_sgd_alone() -> None:
    with pytest.raises(ConfigError, match="Ditto.local must be SGD without momentum"):
        Ditto(local=SGD(0.1, steps=1, momentum=0.5))
    with pytest.raises(ConfigError, match="SGD.lr . SGD.prox_mu must be < 1"):
        Ditto(20.0, SGD(0.1, steps=1))
