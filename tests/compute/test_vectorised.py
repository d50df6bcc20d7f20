"""Solves computed together: the reference within rounding, and the same bits whoever shares the computation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import fedpace
from fedpace import algorithms, tasks
from fedpace.compute import Request, engine, workers
from fedpace.compute.vectorised import Vectorised
from fedpace.local import SGD
from fedpace.sim import Population
from fedpace.tasks.fast.lanes import WIDTH

SIZES = [3 + (7 * client) % 23 for client in range(40)]  # all residues: partial batches of every size
TOLERANCE = 1e-12  # of the largest entry of delta, in float64

RULES: dict[str, dict[str, Any]] = {
    "plain": {},
    "momentum": {"momentum": 0.9},
    "Nesterov": {"momentum": 0.9, "nesterov": True},
    "proximal": {"prox_mu": 0.5, "weight_decay": 0.1},
    "clipped": {"clip": 0.2, "schedule": (1.0, 0.5)},
}


@pytest.fixture(scope="module", autouse=True)
def end_workers() -> Iterator[None]:
    yield
    workers.release()


def networks() -> dict[str, nn.Module]:
    torch.manual_seed(3)
    small = nn.Sequential(nn.Linear(6, 5), nn.Softplus(), nn.Linear(5, 3))
    normal = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.SiLU(), nn.Linear(8, 3, bias=False))
    return {"tanh": small, "layer norm": normal}


def task_of(network: nn.Module, dtype: torch.dtype = torch.float64) -> tasks.TorchTask:
    draws = torch.Generator().manual_seed(11)
    data = [
        (torch.randn(size, 6, generator=draws).to(dtype), torch.randint(0, 3, (size,), generator=draws))
        for size in SIZES
    ]
    test = (torch.randn(9, 6, generator=draws).to(dtype), torch.arange(9) % 3)
    return tasks.from_torch(network.to(dtype), nn.functional.cross_entropy, data, test)


def requests_of(task: tasks.TorchTask, clients: Any, correction: bool = False, **rule: Any) -> list[Request]:
    """Clients with different data and different numbers of steps."""
    local = SGD(0.2, steps=9, batch_size=4, **rule)
    added = np.linspace(-0.1, 0.1, task.layout.size) if correction else None
    return [
        Request(client, 2, task.initial(0), 0, local, 3 + client % 7, seed=5, correction=added, data=client)
        for client in clients
    ]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("network", networks())
def test_equal_to_the_reference_within_rounding(network: str, rule: str) -> None:
    task = task_of(networks()[network])
    requests = requests_of(task, range(WIDTH), correction=rule == "plain", **RULES[rule])
    for request, delta in zip(requests, task.solve_together(requests), strict=True):
        expected = task.reference(request)
        np.testing.assert_allclose(delta, expected, rtol=0, atol=TOLERANCE * np.abs(expected).max())


@pytest.mark.parametrize("network", networks())
def test_the_bits_do_not_depend_on_who_shares_the_computation(network: str) -> None:
    task = task_of(networks()[network], torch.float32)
    all_clients = {r.client: d for r, d in _solved(task, range(WIDTH), momentum=0.5)}
    others = {r.client: d for r, d in _solved(task, range(WIDTH, 2 * WIDTH), momentum=0.5)}
    for clients in ([0], [5, 9], [15, 3, 8, 1], [WIDTH + 2, 5, WIDTH + 9], range(3, 12)):
        for request, delta in _solved(task, clients, momentum=0.5):
            np.testing.assert_array_equal(delta, (all_clients | others)[request.client])


def _solved(task: tasks.TorchTask, clients: Any, **rule: Any) -> Any:
    requests = requests_of(task, clients, **rule)
    return zip(requests, task.solve_together(requests), strict=True)


@pytest.mark.parametrize(
    "layers",
    [
        [nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Linear(5, 3)],  # keeps running statistics
        [nn.Linear(6, 5), nn.Softplus(), nn.Dropout(0.5), nn.Linear(5, 3)],  # draws random numbers
        [nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)],  # has a solver of its own, which is faster
    ],
)
def test_what_cannot_be_vectorised_is_solved_as_inline_does(layers: list[nn.Module]) -> None:
    task = task_of(nn.Sequential(*layers))
    requests = requests_of(task, (0, 1, 3))  # no batch of one sample, which BatchNorm refuses
    assert all(task.lane(request) is None for request in requests)
    vectorised, inline = engine("vectorised", task), engine("inline", task)
    for request in requests:
        vectorised.announce(request, 1.0)
    for request in requests:
        np.testing.assert_array_equal(vectorised.result(request), inline.result(request))


# ---------------------------------------------------------------- the engine


class Counted:
    """The lanes of `Vectorised` without arithmetic: which requests were solved together."""

    name, clients = "counted", 40
    layout = fedpace.vector.Layout.of({"x": (1,)})

    def __init__(self) -> None:
        self.groups: list[list[int]] = []

    def lane(self, request: Request) -> int | None:
        return request.client % 4

    def solve_together(self, requests: list[Request]) -> list[np.ndarray]:
        self.groups.append([request.client for request in requests])
        return [np.array([float(request.client), request.steps]) for request in requests]


def ask(client: int, steps: int = 2, lr: float = 0.1) -> Request:
    return Request(client, 1, START, 0, SGD(lr, steps=2), steps, seed=0, data=client)


START = np.zeros(1)


def test_announced_requests_go_along_in_the_order_of_need_one_per_lane() -> None:
    task = Counted()
    vectorised = Vectorised(task)
    for client, finish_s in ((1, 5.0), (5, 3.0), (2, 9.0), (6, 8.0), (3, 1.0), (7, 2.0)):
        vectorised.announce(ask(client), finish_s)
    assert vectorised.result(ask(4))[0] == 4
    assert task.groups == [[4, 3, 5, 6]]
    assert [vectorised.result(ask(client))[0] for client in (3, 5, 6)] == [3, 5, 6]
    assert len(task.groups) == 1
    assert vectorised.result(ask(1))[0] == 1
    assert task.groups[1:] == [[1, 7, 2]]


def test_only_one_rule_at_a_time_and_nothing_forgotten_or_changed() -> None:
    task = Counted()
    vectorised = Vectorised(task)
    vectorised.announce(ask(1, lr=0.5), 1.0)
    vectorised.announce(ask(2), 1.0)
    vectorised.announce(ask(3), 1.0)
    vectorised.forget(ask(2).key)
    vectorised.result(ask(0))
    assert task.groups == [[0, 3]]
    np.testing.assert_array_equal(vectorised.result(ask(3, steps=1)), [3.0, 1.0])
    vectorised.close()
    assert vectorised.result(ask(1))[0] == 1


@pytest.mark.parametrize("name", ["fedavg", "fedbuff"])
def test_the_pool_computes_in_lanes_too_with_the_same_bits(name: str) -> None:
    task = task_of(networks()["tanh"], torch.float32)
    common: dict[str, Any] = {"client_lr": 0.2, "epochs": 2, "batch_size": 4}
    algorithm = (
        algorithms.fedavg(**common, clients_per_round=12)
        if name == "fedavg"
        else algorithms.fedbuff(**common, buffer=4, concurrency=9)
    )
    devices = Population.half_normal(2.0)
    options: dict[str, Any] = {"rounds": 4, "compute": "vectorised"}
    runs = [fedpace.simulate(algorithm, task, devices, workers=workers, **options) for workers in (1, 2, 3)]
    for run in runs[1:]:
        np.testing.assert_array_equal(run.model, runs[0].model)
        assert run.history == runs[0].history
    inline = fedpace.simulate(algorithm, task, devices, rounds=4, compute="inline")
    np.testing.assert_allclose(runs[0].model, inline.model, rtol=0, atol=1e-5)
