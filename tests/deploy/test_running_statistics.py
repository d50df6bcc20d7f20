"""Models with normalisers: clients add up, the server pools by samples, and what is measured is what is saved."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.deploy.deployed import CLIENTS, VARIANTS, Bed, copied
from torch import nn

from fedpace.deploy import genesis, replay
from fedpace.deploy.expectations import Patience
from fedpace.deploy.journal.files import DiskFiles
from fedpace.deploy.messages import Message, MessageKind
from fedpace.errors import RemoteError
from fedpace.link.codecs.dense import encode_dense
from fedpace.server import Step
from fedpace.tasks import ModelOnly, OwnTask, from_torch, quadratics
from fedpace.tasks.pooling import check_sums, named, pooled
from fedpace.tasks.statistics import SAMPLES
from fedpace.vector import Vector

SIZES = [40, 8, 20, 12, 6, 33]


def data(size: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    inputs = torch.from_numpy(rng.normal(seed, 1 + seed, (size, 4)).astype(np.float32))
    return inputs, torch.arange(size) % 3


def network() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3))


HELD = [data(size, seed) for seed, size in enumerate(SIZES)]
TEST = data(200, 3)
TORCH = from_torch(network(), nn.CrossEntropyLoss(), HELD, TEST)


def bed(folder: Path, **options: Any) -> Bed:
    made = Bed(VARIANTS["fedavg"], folder, rounds=3, samples=None, **{"evaluate_every": 1} | options)
    made.task, made.tasks = TORCH, {client: machine(HELD[client]) for client in range(CLIENTS)}
    return made


def machine(own: object) -> OwnTask:
    """A client's task: its own samples, and a module that nobody shares."""
    return from_torch(network(), nn.CrossEntropyLoss(), [own], TEST)


def accuracy(module: nn.Module) -> float:
    with torch.no_grad():
        return float((module(TEST[0]).argmax(1) == TEST[1]).double().mean())


@pytest.mark.parametrize("who", ["server", "clients"])
def test_the_accuracy_that_is_reported_is_that_of_the_loaded_module(who: str, tmp_path: Path) -> None:
    deployed = bed(tmp_path, evaluate=who)
    if who == "clients":
        deployed.task = ModelOnly(network())
    run = deployed.run()
    loaded = run.to_module(network())
    assert run.history[-1].metrics["accuracy"] == pytest.approx(accuracy(loaded), abs=1e-12)
    assert run.other_tensors()["1.running_mean"].tolist() != [0.0] * 5
    again = replay(deployed.place).run
    assert again.to_json() == run.to_json()
    for name, values in again.other_tensors().items():
        assert values.tobytes() == run.other_tensors()[name].tobytes()
    assert set(again.other_tensors()) == {"1.running_mean", "1.running_var"}


def test_statistics_are_means_over_samples_of_the_last_model_though_nothing_is_measured(
    tmp_path: Path,
) -> None:
    run = bed(tmp_path, evaluate_every=None).run()
    weight, bias = (run.arrays()[f"0.{name}"].astype(np.float64) for name in ("weight", "bias"))
    reached = [
        (size, inputs[:SAMPLES].double().numpy() @ weight.T + bias)
        for size, (inputs, _) in zip(SIZES, HELD, strict=True)
    ]
    weights = np.array([size for size, _ in reached]) / sum(size for size, _ in reached)
    mean = weights @ np.stack([rows.mean(0) for _, rows in reached])
    square = weights @ np.stack([(rows**2).mean(0) for _, rows in reached])
    count = sum(len(rows) for _, rows in reached)
    found = run.other_tensors()
    np.testing.assert_allclose(found["1.running_mean"], mean, rtol=1e-4)
    np.testing.assert_allclose(found["1.running_var"], (square - mean**2) * count / (count - 1), rtol=1e-4)
    assert run.metrics == {}


def test_one_machine_has_the_statistics_that_torch_has() -> None:
    alone = machine(data(20, 2))
    x = alone.initial(0)
    sums = alone.sums(x, 0)
    assert sums is not None
    statistics = pooled([(20.0, sums)], alone.normalisers)
    expected = alone.other_tensors(x)
    for name, values in named(statistics, alone.normalisers, np.float32).items():
        np.testing.assert_allclose(values, expected[name], rtol=1e-5)
    lonely = from_torch(network(), nn.CrossEntropyLoss(), [data(1, 2), data(20, 2)], TEST)
    assert lonely.sums(x, 0) is None


def test_pooled_by_samples_is_as_if_all_samples_were_in_one_place() -> None:
    rng = np.random.default_rng(0)
    parts = [rng.normal(k, 1 + k, (size, 3)) for k, size in enumerate((5, 11, 2))]
    answers = [(float(len(p)), np.concatenate([[len(p)], p.sum(0), (p**2).sum(0)])) for p in parts]
    together = np.concatenate(parts)
    expected = np.concatenate([together.mean(0), together.var(0, ddof=1)])
    np.testing.assert_allclose(pooled(answers, {"norm": 3}), expected, rtol=1e-12)
    nobody = [(4.0, np.zeros(7))]
    assert pooled(nobody, {"norm": 3}).tolist() == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    "sums", [[-1.0, 0, 0], [1.5, 0, 0], [0.0, 1, 1], [2.0, 3, -1], [2.0, 4, 7], [1.0, 1e16, 1e32]]
)
def test_sums_that_no_samples_have_are_refused(sums: list[float]) -> None:
    check_sums(np.array([2.0, 4, 8]), {"norm": 1})
    with pytest.raises(RemoteError):
        check_sums(np.array(sums), {"norm": 1})


def test_what_a_client_makes_up_is_an_answer_and_counts_for_nothing(tmp_path: Path) -> None:
    from fedpace.deploy import estimates

    bed(tmp_path, evaluate_every=None).run()
    begun = genesis.read(DiskFiles(tmp_path / "server"))
    assert begun is not None and begun.terms.normalisers == {"1": 5}
    state = begun.coordinator().state
    for client, sums in enumerate((np.ones(11), np.ones(3), -np.ones(11))):
        header = {"version": 0, "samples": 2.0}
        message = Message(MessageKind.ESTIMATED, header, {"sums": encode_dense(sums)})
        estimates.add(state, begun.terms.normalisers, client, message)
    assert {client: sums.size for client, (_, sums) in state.sums[0].items()} == {0: 11, 1: 0, 2: 0}
    estimates.pool(state, begun.terms.normalisers, 0, [0, 1, 2])
    assert state.statistics[0].tolist() == [1.0] * 5 + [0.0] * 5
    estimates.add(state, begun.terms.normalisers, 3, message)
    assert state.sums == {}


class Killed(Exception):
    """In place of a server's end."""


def bed_killed_after_its_last_step(folder: Path, **options: Any) -> Bed:
    """The next server has the disk of that instant: the step is journalled, no client was asked about its model."""

    def killed(step: Step, _: object) -> None:
        if step.version == 3 and deployed.place == folder / "server":
            deployed.place = copied(deployed.place, folder / "again")
            assert 3 not in replay(deployed.place).coordinator.state.statistics
            raise Killed

    deployed = bed(folder, in_order=True, told=[killed], **options)
    return deployed


@pytest.mark.parametrize("who", ["server", "clients", None])
def test_a_server_killed_after_its_last_step_pools_and_measures_when_it_is_started_again(
    who: str | None, tmp_path: Path
) -> None:
    every = {"evaluate_every": None} if who is None else {"evaluate": who}
    through = bed(tmp_path / "through", in_order=True, **every).run()
    deployed = bed_killed_after_its_last_step(tmp_path, **every)
    run = deployed.run(Bed.serve_after_failure)
    assert deployed.place == tmp_path / "again" and run.model.tobytes() == through.model.tobytes()
    assert run.history[-1].metrics == through.history[-1].metrics
    again = replay(deployed.place).run
    assert again.to_json() == run.to_json()
    for name in ("1.running_mean", "1.running_var"):
        expected = through.other_tensors()[name].tobytes()
        assert run.other_tensors()[name].tobytes() == again.other_tensors()[name].tobytes() == expected


def test_a_server_started_again_waits_for_clients_that_are_gone_as_long_as_its_patience_lasts(
    tmp_path: Path,
) -> None:
    async def script(bed: Bed) -> None:
        await asyncio.wait({bed.server})
        for client in range(CLIENTS):
            await bed.kill_client(client)
        await bed.serve_after_failure()

    patience = Patience(grace_s=0.1)
    deployed = bed_killed_after_its_last_step(tmp_path, evaluate_every=None, patience=patience)
    run = deployed.run(script)
    assert len(run.history) == 3 and deployed.place == tmp_path / "again"
    assert replay(deployed.place).coordinator.state.statistics == {}


class Watched:
    """A task whose server would notice two evaluations at once."""

    def __init__(self) -> None:
        self._task, self._busy = quadratics([[1.0], [2.0]]), threading.Lock()
        self.name, self.layout, self.initial = self._task.name, self._task.layout, self._task.initial
        self.together = 0

    def evaluate(self, x: Vector) -> Mapping[str, float]:
        if not self._busy.acquire(blocking=False):
            self.together += 1
            return {}
        threading.Event().wait(0.02)
        self._busy.release()
        return self._task.evaluate(x)


def test_a_server_measures_one_model_at_a_time(tmp_path: Path) -> None:
    watched = Watched()
    deployed = Bed(VARIANTS["fedasync"], tmp_path, rounds=12, samples=None, evaluate_every=1)
    deployed.task = watched
    deployed.tasks = {client: quadratics([[float(client)]]) for client in range(CLIENTS)}
    run = deployed.run()
    assert watched.together == 0 and "loss" in run.history[-1].metrics
