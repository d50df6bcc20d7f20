"""Any optimizer of torch as the local rule: the same numbers as torch's own loop."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import fedpace
from fedpace import Algorithm, check
from fedpace.algorithms import fedavg, fednova, scaffold
from fedpace.errors import ConfigError
from fedpace.local import SGD, Torch
from fedpace.pace import Buffered, Rounds
from fedpace.study.rebuild import algorithm_from

CLIENTS, SAMPLES, STEPS = 3, 6, 4


def data(client: int) -> tuple[torch.Tensor, torch.Tensor]:
    rng = torch.Generator().manual_seed(client)
    return torch.randn(SAMPLES, 3, generator=rng), torch.randn(SAMPLES, 2, generator=rng)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def task() -> fedpace.tasks.OwnTask:
    return fedpace.tasks.from_torch(network(), nn.MSELoss(), [data(k) for k in range(CLIENTS)], data(9))


def flat(module: nn.Module) -> np.ndarray:
    return torch.cat([p.detach().reshape(-1) for p in module.parameters()]).numpy()


def by_hand(client: int, make: Any) -> np.ndarray:
    """Full-batch steps with torch's own loop."""
    module, (x, y) = network(), data(client)
    optimizer = make(module.parameters())

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(module(x), y)
        loss.backward()
        return loss

    for _ in range(STEPS):
        optimizer.step(closure)
    return flat(module)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("AdamW", {"lr": 0.01, "betas": (0.8, 0.95), "weight_decay": 0.1}),
        ("Adagrad", {"lr": 0.05}),
        ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.5}),
        ("LBFGS", {"lr": 0.5, "max_iter": 3}),
    ],
)
def test_one_round_is_the_mean_of_torchs_own_loops(name: str, arguments: dict[str, Any]) -> None:
    local = Torch(f"torch.optim.{name}", steps=STEPS, batch_size=None, **arguments)
    run = fedpace.simulate(Algorithm(local=local), task(), rounds=1)
    ends = [by_hand(k, lambda p: getattr(torch.optim, name)(p, **arguments)) for k in range(CLIENTS)]
    np.testing.assert_allclose(run.model, np.mean(ends, axis=0), rtol=1e-4, atol=1e-6)


def test_torchs_plain_sgd_is_ours() -> None:
    ours = fedpace.simulate(Algorithm(local=SGD(0.1, epochs=2, batch_size=4)), task(), rounds=3, seed=5)
    local = Torch("torch.optim.SGD", epochs=2, batch_size=4, lr=0.1)
    theirs = fedpace.simulate(Algorithm(local=local), task(), rounds=3, seed=5)
    np.testing.assert_allclose(ours.model, theirs.model, rtol=1e-5, atol=1e-7)


def test_a_session_leaves_nothing_behind_and_workers_change_nothing(tmp_path) -> None:
    local = Torch("torch.optim.Adam", epochs=(1, 3), batch_size=2, lr=0.05)
    rule = Algorithm(local=local, pace=Buffered(2, concurrency=3))
    whole = fedpace.simulate(rule, task(), rounds=6)
    again = fedpace.simulate(rule, task(), rounds=6, workers=2, compute="pool")
    np.testing.assert_array_equal(whole.model, again.model)
    fedpace.simulate(rule, task(), rounds=6, checkpoint=tmp_path, stop={"virtual_seconds": 2})
    np.testing.assert_array_equal(
        fedpace.simulate(rule, task(), rounds=6, checkpoint=tmp_path).model, whole.model
    )


def test_vectorised_trains_each_client_alone() -> None:
    rule = Algorithm(local=Torch("torch.optim.Adam", steps=2, batch_size=3, lr=0.05), pace=Rounds(2))
    one, other = (
        fedpace.simulate(rule, task(), rounds=2, compute=engine) for engine in ("inline", "vectorised")
    )
    np.testing.assert_array_equal(one.model, other.model)


def test_it_prints_as_it_is_written() -> None:
    local = Torch("torch.optim.AdamW", epochs=1, lr=0.01, betas=[0.9, 0.99])
    assert repr(local) == "Torch('torch.optim.AdamW', epochs=1, batch_size=10, lr=0.01, betas=(0.9, 0.99))"
    algorithm = Algorithm(local=local)
    assert algorithm_from(repr(algorithm)) == algorithm
    assert pickle.loads(pickle.dumps(local)) == local and hash(local) == hash(
        pickle.loads(pickle.dumps(local))
    )
    assert local != Torch("torch.optim.AdamW", epochs=1, lr=0.02, betas=(0.9, 0.99))


def test_it_keeps_the_promises_of_local_rules() -> None:
    found = check.all(Torch("torch.optim.Adam", epochs=(1, 3), lr=0.1))
    assert found.ok and found.kind == "local rule without gradient weights" and found.place == "local"


def test_rules_that_need_the_weights_of_gradients_refuse_it() -> None:
    local = Torch("torch.optim.Adam", steps=2)
    for algorithm, why in (
        (fednova(), "no .*a.*_1 to divide by"),
        (scaffold(), "the mean gradient is the update"),
    ):
        with pytest.raises(ConfigError, match=why):
            with_local(algorithm, local)
    assert with_local(fedavg(), local).local is local


def with_local(algorithm: Algorithm, local: Torch) -> Algorithm:
    return replace(algorithm, local=local)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("AdamW", {"steps": 1}, "a dotted name such as torch.optim.AdamW"),
        ("torch.optim.AdamW", {}, "exactly one of steps, epochs"),
        ("torch.optim.AdamW", {"steps": 1, "lr": [object()]}, "Torch: lr must be a literal"),
        ("torch.optim.AdamW", {"steps": 1, "keep_state": 1}, "keep_state must be True or False"),
    ],
)
def test_what_cannot_be_meant_is_refused_when_it_is_written(name: str, options: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Torch(name, **options)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("torch.optim.AdmW", {}, "optimizer must be one of torch.optim"),
        ("torch.optim.Optimizer", {}, "optimizer must be one of torch.optim"),
        ("torch.nn.Linear", {}, "optimizer must be one of torch.optim"),
        ("antigravity.Fly", {}, "optimizer must be one of torch.optim"),
        ("torch.optim.AdamW", {"rate": 1}, "does not make an optimizer: .*rate"),
        ("torch.optim.AdamW", {"lr": -1.0}, "does not make an optimizer: Invalid learning rate"),
    ],
)
def test_a_name_that_is_no_optimizer_is_refused(name: str, arguments: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        fedpace.simulate(Algorithm(local=Torch(name, steps=1, **arguments)), task(), rounds=1)


def test_a_task_without_a_module_is_refused() -> None:
    rule = Algorithm(local=Torch("torch.optim.Adam", steps=1))
    with pytest.raises(ConfigError, match="task must be one with a torch module"):
        fedpace.simulate(rule, fedpace.tasks.quadratics([0.0, 1.0]), rounds=1)
