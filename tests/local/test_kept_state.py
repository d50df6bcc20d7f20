"""Optimizer state that stays on the client: one long session in pieces, and changed by acknowledgements alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import fedpace
from fedpace import Algorithm
from fedpace.client import Client, ClientConfig
from fedpace.errors import ConfigError
from fedpace.link import Dense
from fedpace.link.protocol import Context
from fedpace.local import Torch
from fedpace.pace import Arrivals, Buffered, Interrupting, Polled, Rounds
from fedpace.server import Parcel, Receipt
from fedpace.sim import Population
from fedpace.study.rebuild import algorithm_from

CLIENTS, SAMPLES, STEPS, ROUNDS = 3, 6, 2, 3


def data(client: int) -> tuple[torch.Tensor, torch.Tensor]:
    rng = torch.Generator().manual_seed(client)
    return torch.randn(SAMPLES, 3, generator=rng), torch.randn(SAMPLES, 2, generator=rng)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def task(clients: int = CLIENTS) -> fedpace.tasks.OwnTask:
    return fedpace.tasks.from_torch(network(), nn.MSELoss(), [data(k) for k in range(clients)], data(9))


def rule(**more: Any) -> Torch:
    options = {"steps": STEPS, "batch_size": None, "keep_state": True, "lr": 0.05} | more
    return Torch(options.pop("optimizer", "torch.optim.Adam"), **options)


def one_long_session(optimizer: str, arguments: dict[str, Any]) -> np.ndarray:
    """torch's own loop over the steps of all rounds, with one optimizer."""
    module, (x, y) = network(), data(0)
    steps = getattr(torch.optim, optimizer)(module.parameters(), **arguments)
    for _ in range(STEPS * ROUNDS):
        steps.zero_grad()
        nn.functional.mse_loss(module(x), y).backward()
        steps.step()
    return torch.cat([p.detach().reshape(-1) for p in module.parameters()]).numpy()


@pytest.mark.parametrize(
    ("optimizer", "arguments"),
    [
        ("AdamW", {"lr": 0.05, "amsgrad": True}),
        ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.5}),
        ("Adagrad", {"lr": 0.05}),
        ("NAdam", {"lr": 0.05}),
        ("Rprop", {"lr": 0.05}),
    ],
)
def test_the_rounds_of_one_client_are_one_long_session(optimizer: str, arguments: dict[str, Any]) -> None:
    """With one client the server's model is the client's own, so kept state must continue as if nothing was between."""
    local = rule(optimizer=f"torch.optim.{optimizer}", **arguments)
    kept = fedpace.simulate(Algorithm(local=local), task(1), rounds=ROUNDS)
    fresh = fedpace.simulate(Algorithm(local=replaced(local)), task(1), rounds=ROUNDS)
    expected = one_long_session(optimizer, arguments)
    np.testing.assert_allclose(kept.model, expected, rtol=1e-5, atol=1e-6)
    assert not np.allclose(fresh.model, expected, rtol=1e-3)


def replaced(local: Torch) -> Torch:
    """The same with a fresh optimizer for every session."""
    return Torch(local.optimizer, steps=local.steps, batch_size=None, **dict(local.arguments))


def unequal(**rules: Any) -> Algorithm:
    return Algorithm(**{"local": rule(batch_size=2, epochs=(1, 2), steps=None), **rules})


DEVICES = Population.from_times((1.0, 1.7, 2.9), drop=0.3)


@pytest.mark.parametrize(
    "pace",
    [
        pytest.param(Rounds(2), marks=pytest.mark.long),
        Buffered(2, 3),
        Polled(2),
        pytest.param(Arrivals(2), marks=pytest.mark.long),
    ],
)
def test_neither_workers_nor_eagerness_nor_vectorised_changes_a_bit(pace: Any) -> None:
    algorithm, whole = unequal(pace=pace), task()
    reference = fedpace.simulate(algorithm, whole, DEVICES, rounds=6, compute="inline")
    for options in (
        {"workers": 1, "compute": "pool"},
        {"workers": 2, "compute": "pool"},
        {"compute": "vectorised"},
        {"eager": True},
    ):
        again = fedpace.simulate(algorithm, whole, DEVICES, rounds=6, **options)
        assert again.model.tobytes() == reference.model.tobytes(), options


def test_a_resumed_run_and_one_whose_memories_are_on_disk_are_the_same(tmp_path) -> None:
    (folder := tmp_path / "run").mkdir()
    whole = fedpace.simulate(unequal(pace=Buffered(2, 3)), task(), DEVICES, rounds=8)
    first = fedpace.simulate(
        unequal(pace=Buffered(2, 3)),
        task(),
        DEVICES,
        rounds=8,
        checkpoint=folder,
        stop={"virtual_seconds": 4},
    )
    assert 0 < len(first.history) < 8
    resumed = fedpace.simulate(unequal(pace=Buffered(2, 3)), task(), DEVICES, rounds=8, checkpoint=folder)
    assert resumed.model.tobytes() == whole.model.tobytes()
    spilled = fedpace.simulate(unequal(pace=Buffered(2, 3)), task(), DEVICES, rounds=8, spill=str(tmp_path))
    assert spilled.model.tobytes() == whole.model.tobytes()


def test_a_memory_is_captured_at_the_start_and_changes_when_it_is_acknowledged() -> None:
    algorithm = Algorithm(local=rule(), pace=Rounds())
    client = Client(ClientConfig.of(algorithm, np.zeros(2), seed=0), 0, 1.0, 1.0)
    model = Dense().encode(np.zeros(2), np.random.default_rng(0))

    def session(number: int, kept: float, receipt: Receipt) -> Any:
        began = client.begin(Parcel(number, number, {"model": model}, Context(round=number)))
        client.finish()
        client.encode(np.array([0.5, 0.5, kept]))
        before = client.state.kept
        client.acknowledged(receipt)
        client.acknowledged(receipt)
        return began.memory, before

    assert session(0, 1.0, Receipt(False, "no")) == (None, None)
    assert client.state.kept is None
    assert session(1, 2.0, Receipt(True, taken=2)) == (None, None)
    memory, _ = session(2, 3.0, Receipt(False, "late", taken=2))
    assert memory.tolist() == [2.0] == client.state.kept.tolist() and not memory.flags.writeable
    session(3, np.inf, Receipt(False, "not finite", taken=2))
    assert client.state.kept.tolist() == [2.0]


def test_a_state_that_is_not_finite_is_a_failed_session() -> None:
    algorithm = Algorithm(local=rule(), pace=Rounds())
    client = Client(ClientConfig.of(algorithm, np.zeros(2), seed=0), 0, 1.0, 1.0)
    model = Dense().encode(np.zeros(2), np.random.default_rng(0))
    client.begin(Parcel(0, 0, {"model": model}, Context(round=0)))
    client.finish()
    assert client.encode(np.array([0.5, 0.5, np.nan])).frames == {}


def test_it_is_not_sent() -> None:
    plain, kept = (
        fedpace.simulate(Algorithm(local=local), task(), rounds=1).final
        for local in (replaced(rule()), rule())
    )
    assert plain["bytes_up"] == kept["bytes_up"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"optimizer": "torch.optim.LBFGS", "lr": 0.5}, "is neither a tensor nor a number"),
        ({"optimizer": "torch.optim.SGD", "lr": 0.1}, "with these arguments has no state"),
    ],
)
def test_an_optimizer_without_a_state_of_tensors_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        fedpace.simulate(Algorithm(local=rule(**options)), task(), rounds=1)


def test_pacing_that_cuts_sessions_short_is_refused() -> None:
    with pytest.raises(ConfigError, match="memory kept by local training"):
        Algorithm(local=rule(), pace=Interrupting(2, 1.0))
    with pytest.raises(ConfigError, match="memory kept by local training"):
        replace(Algorithm(local=rule()), pace=Polled(2, reuse_model=True))


def test_it_reads_back() -> None:
    algorithm = Algorithm(local=rule())
    assert "keep_state=True" in repr(algorithm) and algorithm_from(repr(algorithm)) == algorithm
