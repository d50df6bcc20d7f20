"""Every engine that promises `inline`'s bits keeps its promise: models and histories, for all pacings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

import fedpace
from fedpace import algorithms, tasks
from fedpace.algorithm import Algorithm
from fedpace.compute import workers
from fedpace.record import Run
from fedpace.sim import Population

SYNCHRONOUS: dict[str, Any] = {"client_lr": 0.1, "epochs": 1, "batch_size": 8, "clients_per_round": 4}
BUFFERED: dict[str, Any] = {"client_lr": 0.1, "epochs": 1, "batch_size": 8, "buffer": 3, "concurrency": 5}
ALGORITHMS: dict[str, Callable[[], Algorithm]] = {
    "fedavg": lambda: algorithms.fedavg(**SYNCHRONOUS),
    "fedgm": lambda: algorithms.fedgm(**SYNCHRONOUS, beta=0.8, nu=0.7),
    "fednova": lambda: algorithms.fednova(**(SYNCHRONOUS | {"epochs": (1, 4)}), momentum=0.5),
    "scaffold": lambda: algorithms.scaffold(**SYNCHRONOUS),
    "ca2fl": lambda: algorithms.ca2fl(**BUFFERED),
    "defedavg_niid": lambda: algorithms.defedavg_niid(client_lr=0.1, steps=4, batch_size=8, draws=3),
    "favano": lambda: algorithms.favano(client_lr=0.1, steps=6, batch_size=8, clients_per_round=3),
    "quafl": lambda: algorithms.quafl(client_lr=0.1, steps=6, batch_size=8, clients_per_round=3),
    "two_way": lambda: algorithms.two_way(**SYNCHRONOUS),
    "two_way, error feedback": lambda: algorithms.two_way(memory="ef", **SYNCHRONOUS),
}
ROUNDS = 5


@pytest.fixture(scope="module", autouse=True)
def end_workers() -> Iterator[None]:
    yield
    workers.release()


@pytest.fixture(scope="module")
def digits() -> tasks.LoadedTask:
    return tasks.load("digits", clients=12, partition="dirichlet:0.5", model="mlp", seed=1)


@pytest.fixture(scope="module")
def inline_runs() -> dict[str, Run]:
    return {}


def run(algorithm: Algorithm, task: tasks.TorchTask, compute: str, workers: int, rounds: int = ROUNDS) -> Run:
    devices = Population.half_normal(2.0)
    options: dict[str, Any] = {"rounds": rounds, "seed": 3, "keep_models": True}
    return fedpace.simulate(algorithm, task, devices, compute=compute, workers=workers, **options)


def assert_same(one: Run, other: Run) -> None:
    assert one.models is not None and other.models is not None
    assert len(one.models) == len(other.models) > 0
    for a, b in zip(one.models, other.models, strict=True):
        np.testing.assert_array_equal(a, b)
    assert one.history == other.history


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_pool_gives_the_bits_of_inline(
    name: str, workers: int, digits: tasks.LoadedTask, inline_runs: dict[str, Run]
) -> None:
    algorithm = ALGORITHMS[name]()
    if name not in inline_runs:
        inline_runs[name] = run(algorithm, digits, "inline", 1)
    assert_same(inline_runs[name], run(algorithm, digits, "pool", workers))


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """This process uses torch on so many threads, and has already done so."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        torch.randn(600, 600) @ torch.randn(600, 600)
        yield
    finally:
        torch.set_num_threads(before)


def own_network() -> tasks.TorchTask:
    """A module of the user's, by autograd: convolution and normalisation."""
    torch.manual_seed(5)
    module = torch.nn.Sequential(
        torch.nn.Conv2d(1, 6, 3, padding=1),
        torch.nn.GroupNorm(2, 6),
        torch.nn.Tanh(),
        torch.nn.AdaptiveAvgPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(24, 10),
    )
    rng = np.random.default_rng(6)
    data = [(rng.normal(size=(20, 1, 8, 8)).astype(np.float32), rng.integers(0, 10, 20)) for _ in range(12)]
    clients = [(torch.from_numpy(x), torch.from_numpy(y)) for x, y in data]
    return tasks.from_torch(module, torch.nn.functional.cross_entropy, clients, clients[0])


NETWORKS: dict[str, Callable[[], tasks.TorchTask]] = {
    **{
        model: partial(tasks.load, "digits", clients=12, partition="iid", model=model, seed=1)
        for model in ("softmax", "cnn_ca2fl", "resnet20_gn")
    },
    "own": own_network,
}
NETWORK_ALGORITHMS = {"fedavg": {"clients_per_round": 3}, "fedbuff": {"buffer": 2, "concurrency": 4}}


@pytest.mark.parametrize(("network", "name"), [*((each, "fedavg") for each in NETWORKS), ("own", "fedbuff")])
def test_for_every_way_to_solve(network: str, name: str) -> None:
    """Compiled, as matrix products, by autograd: inline and in the pool, whatever torch's threads in this process are.

    Evaluation included: metrics are part of the history.
    """
    task = NETWORKS[network]()
    options = NETWORK_ALGORITHMS[name]
    algorithm = getattr(algorithms, name)(client_lr=0.05, steps=2, batch_size=8, **options)
    with torch_threads(1):
        reference = run(algorithm, task, "inline", 1, rounds=2)
    for threads in (1, 2, 4):
        with torch_threads(threads):
            assert_same(reference, run(algorithm, task, "pool", threads, rounds=2))
            if threads > 1:
                assert_same(reference, run(algorithm, task, "inline", 1, rounds=2))
