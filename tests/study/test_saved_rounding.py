"""The engine in a saved run's identity: where it changes bits, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import fedpace
from fedpace.algorithms import fedavg
from fedpace.errors import ConfigError, InterruptedRun
from fedpace.sim.observer import Observer
from fedpace.tasks import OwnTask

FEDAVG = fedavg(clients_per_round=2, steps=1, batch_size=5)


class Interrupting(Observer):
    def recorded(self, record: Any, x: Any) -> None:
        raise KeyboardInterrupt


@pytest.fixture(scope="module")
def task() -> OwnTask:
    """Without a compiled path, so that it has lanes."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(6, 16), nn.Softplus(), nn.Linear(16, 3))
    data = [(torch.randn(20, 6), torch.arange(20) % 3) for _ in range(2)]
    return fedpace.tasks.from_torch(network, nn.CrossEntropyLoss(), data, data[0])


def facts(name: str) -> dict[str, str]:
    return dict(fedpace.runs().open(name).entry.experiment)


def test_vectorised_is_another_experiment_than_inline(task: OwnTask) -> None:
    fedpace.simulate(FEDAVG, task, rounds=1, store="plain", compute="inline")
    with pytest.raises(ConfigError, match="'plain' has another compute: ''; here it is .*vectorised"):
        fedpace.simulate(FEDAVG, task, rounds=1, store="plain", compute="vectorised")
    fedpace.simulate(FEDAVG, task, rounds=1, store="lanes", compute="vectorised")
    assert facts("lanes") == {**facts("plain"), "compute": "'vectorised'"}
    with pytest.raises(ConfigError, match="'lanes' has another compute: .*vectorised.*; here it is ''"):
        fedpace.simulate(FEDAVG, task, rounds=1, store="lanes", compute="inline")


def test_engines_with_the_bits_of_inline_are_the_same_experiment(task: OwnTask) -> None:
    first = fedpace.simulate(FEDAVG, task, rounds=1, store="plain")
    again = fedpace.simulate(FEDAVG, task, rounds=1, store="plain", compute="inline")
    assert again.to_json() == first.to_json()
    quadratics = fedpace.tasks.quadratics([[0.0], [2.0]])
    for name, compute in (("a", "inline"), ("b", "vectorised")):
        fedpace.simulate(FEDAVG, quadratics, rounds=1, store=name, compute=compute)
    assert facts("a") == facts("b")


def test_a_run_is_resumed_and_extended_with_the_engine_it_was_begun_with(task: OwnTask) -> None:
    whole = fedpace.simulate(FEDAVG, task, rounds=2, compute="vectorised")
    with pytest.raises(InterruptedRun):
        fedpace.simulate(
            FEDAVG, task, rounds=2, store="night", compute="vectorised", observers=[Interrupting()]
        )
    saved = fedpace.runs().open("night")
    assert (saved.resume(task=task).model == whole.model).all()
    saved = fedpace.runs().open("night")
    saved.resume(rounds=3, task=task)
    assert facts("night")["compute"] == "'vectorised'"
