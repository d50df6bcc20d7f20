"""What stays on real clients: the bits of the simulation, kept on their disks, and not a byte of it sent."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import fedpace
from deploy.deployed import CLIENTS, ROUNDS, SEED, Bed
from fedpace import Algorithm, algorithms
from fedpace.deploy import Owner, replay
from fedpace.deploy.participant import Participant
from fedpace.local import SGD, Private, Torch
from fedpace.pace import Rounds
from fedpace.tasks import quadratics
from fedpace.vector import Layout

OPTIONS: dict[str, Any] = {"client_lr": 0.1, "steps": 2, "batch_size": None, "clients_per_round": 4}
RULES: dict[str, Algorithm] = {
    "fedper": algorithms.fedper(private="head", **OPTIONS),
    "fedrep": Algorithm(local=SGD(0.1, steps=1), personal=Private("head", SGD(0.2, steps=2)), pace=Rounds(4)),
    "ditto": algorithms.ditto(lam=0.5, **OPTIONS),
    "feddyn": algorithms.feddyn(prox_mu=0.5, **OPTIONS),
}


def in_two_parts() -> Any:
    task = quadratics(np.arange(18.0).reshape(CLIENTS, 3) / 16, weights=[1, 2, 3, 4, 5, 6])
    task.layout = Layout.of({"body": (2,), "head": (1,)})
    return task


class PersonalBed(Bed):
    def __init__(self, algorithm: Algorithm, folder: Path, **options: Any) -> None:
        super().__init__(algorithm, folder, in_order=True, **options)
        self.task = in_two_parts()


@pytest.mark.parametrize("name", RULES)
def test_a_deployment_has_the_bits_of_its_simulation(name: str, tmp_path: Path) -> None:
    run = PersonalBed(RULES[name], tmp_path).run()
    simulated = fedpace.simulate(RULES[name], in_two_parts(), rounds=ROUNDS, seed=SEED, evaluate_every=None)
    assert run.model.tobytes() == simulated.model.tobytes() and run.layout == simulated.layout


async def restarts(bed: Bed) -> None:
    """A client dies after two steps and is started again."""
    await bed.reached(2)
    await bed.kill_client(0)
    bed.join(0)


@pytest.mark.parametrize("name", RULES)
def test_a_client_that_restarts_still_has_what_it_kept(name: str, tmp_path: Path) -> None:
    """Every later update is what its memory and its data make."""
    bed = PersonalBed(RULES[name], tmp_path, disks=True, rounds=8)
    run = bed.run(restarts)
    assert run.counters["resynchronised"] == 0
    assert replay(bed.place, in_two_parts()).different == ()


def test_a_client_that_lost_its_memory_begins_with_nothing_and_replays(tmp_path: Path) -> None:
    """FedDyn's server half begins anew with it: at rest the optimum is still that of all clients."""

    async def loses(bed: Bed) -> None:
        await bed.reached(3)
        await bed.kill_client(0)
        shutil.rmtree(tmp_path / "client-0")
        bed.join(0)

    rule = replace(algorithms.feddyn(prox_mu=1.0, client_lr=0.3, steps=4, batch_size=None), pace=Rounds())
    bed = PersonalBed(rule, tmp_path, disks=True, rounds=40)
    run = bed.run(loses)
    assert run.counters["resynchronised"] == 1
    assert replay(bed.place, in_two_parts()).different == ()
    uniform = quadratics(np.arange(18.0).reshape(CLIENTS, 3) / 16)
    np.testing.assert_allclose(run.model, uniform.optimum, atol=1e-5)


def test_clients_measure_their_own_models(tmp_path: Path) -> None:
    """With λ = 0 a personal model rests at its client's own optimum, where its loss is zero."""
    centers = np.arange(18.0).reshape(CLIENTS, 3) / 16
    bed = Bed(algorithms.ditto(lam=0.0, client_lr=0.5, steps=8, batch_size=None), tmp_path, rounds=8)
    bed.task = quadratics(centers)
    bed.tasks = {client: quadratics(centers[client : client + 1]) for client in range(CLIENTS)}
    bed.options |= {"evaluate": "clients", "evaluate_every": 1, "samples": [1.0] * CLIENTS}
    run = bed.run()
    assert run.client_metrics[8].values.max() < 1e-9
    away = [float(np.sum((run.model - center) ** 2)) / 2 for center in centers]
    assert max(away) > 0.1  # where the global model is not


def test_an_optimizers_state_stays_on_the_clients_disk(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = nn.Linear(2, 1)
    data = [(torch.randn(4, 2), torch.randn(4, 1)) for _ in range(CLIENTS)]

    def task(clients: list[Any]) -> Any:
        return fedpace.tasks.from_torch(module, nn.MSELoss(), clients, data[0])

    rule = Algorithm(local=Torch("torch.optim.Adam", steps=2, lr=0.05, keep_state=True))

    bed = Bed(rule, tmp_path, disks=True, in_order=True, samples=[4.0] * CLIENTS, rounds=ROUNDS + 2)
    bed.task = task(data)
    bed.tasks = {client: task([data[client]]) for client in range(CLIENTS)}  # each has a module of its own
    run = bed.run(restarts)
    assert run.counters["resynchronised"] == 0 and replay(bed.place, task(data)).different == ()


def test_the_model_of_a_participant_is_what_travels() -> None:
    participant = Participant(in_two_parts(), 0, Owner())
    participant.adopt(RULES["fedper"], 0)
    assert participant.task.layout.names == ("body",) and participant.task.initial(0).size == 2
    participant.adopt(RULES["ditto"], 0)
    assert participant.task.layout.names == ("body", "head")
