"""The workloads: model, data, clients and local work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from fedpace.errors import ConfigError
from fedpace.random import stream

if TYPE_CHECKING:
    from fedpace.algorithm import Algorithm
    from fedpace.tasks import TorchTask

PER_ROUND = 10  # clients


@dataclass(frozen=True, slots=True)
class Workload:
    """Local training of `PER_ROUND` clients per server step; `rounds` of them are timed at a time."""

    name: str
    title: str
    data: str
    model: str
    clients: int
    rounds: int
    target: float | None  # of the time that two bare processes take; None: reported without a goal
    work: dict[str, int] = field(default_factory=lambda: {"steps": 50})
    algorithm: str = "fedavg"
    lr: float = 0.05
    batch_size: int = 10

    def make_algorithm(self) -> Algorithm:
        from fedpace import algorithms

        pace: dict[str, dict[str, Any]] = {
            "fedavg": {"clients_per_round": PER_ROUND},
            "fedbuff": {"buffer": PER_ROUND, "concurrency": 20},
            "defedavg_niid": {"draws": PER_ROUND},
        }
        make: Callable[..., Algorithm] = getattr(algorithms, self.algorithm)
        common: dict[str, Any] = {"client_lr": self.lr, "batch_size": self.batch_size, **self.work}
        return make(**common, **pace[self.algorithm])

    def make_task(self) -> TorchTask:
        """On the real data, or on noise of the same shape where they are not downloaded: a step takes as long."""
        from fedpace import tasks

        if self.data == "own":
            from fedpace.bench.own import own_task

            return own_task(self.model, self.clients)
        try:
            return tasks.load(self.data, self.clients, "iid", self.model, seed=0)
        except ConfigError:
            return _noise(self)


def _noise(workload: Workload) -> TorchTask:
    from fedpace.tasks.datasets.data import Data
    from fedpace.tasks.named import DEFAULTS, LoadedTask
    from fedpace.tasks.partition import partition

    rng = stream(0, "data")
    images = rng.integers(0, 256, (70_000, 28, 28), dtype=np.uint8)
    labels = (np.arange(70_000) % 10).astype(np.uint8)
    data = Data("noise", images[:60_000], labels[:60_000], images[60_000:], labels[60_000:], 10)
    rule = partition("iid")
    return LoadedTask(data, DEFAULTS[workload.data], workload.clients, rule, workload.model, seed=0)


SOFTMAX = "softmax 784x10, MNIST, 1000 clients x 60 samples, 10 per round, 1 epoch, batch 10"
CNN = "CNN 5x5 32/64 + 512, Fashion-MNIST, 100 clients, 10 per round, 50 steps of batch 10"
OWN = "own module, 20 clients, 10 per round, 1 epoch, batch 10"
MLP = "MLP 784-200-10, MNIST, 100 clients, 10 per round, 50 steps of batch 10"
WORKLOADS = {
    "W1": Workload("W1", SOFTMAX, "mnist", "softmax", 1000, 60, target=0.2, work={"epochs": 1}),
    "W2": Workload("W2", CNN, "fashion-mnist", "cnn", 100, 1, target=0.75),
    "W3": Workload("W3", MLP, "mnist", "mlp", 100, 6, target=0.35),
    "W4": Workload(
        "W4", f"FedBuff, concurrency 20, buffer 10, {MLP}", "mnist", "mlp", 100, 6, 0.4, algorithm="fedbuff"
    ),
    "W4d": Workload(
        "W4d", f"DeFedAvg-nIID, n = 10, {MLP}", "mnist", "mlp", 100, 6, 0.4, algorithm="defedavg_niid"
    ),
    "W5": Workload("W5", f"tanh MLP 30-64-64-2, {OWN}", "own", "tanh", 20, 20, 0.3, {"epochs": 1}),
    "W6": Workload(
        "W6", f"transformer, 2 layers of 64, {OWN}", "own", "transformer", 20, 2, 0.75, {"epochs": 1}
    ),
    "W7": Workload(
        "W7", f"ResNet 16-32-64 with GroupNorm, {OWN}", "own", "resnet", 20, 1, 0.65, {"epochs": 1}
    ),
    "W7r": Workload("W7r", f"ResNet-18 with GroupNorm, {OWN}", "own", "resnet18", 20, 1, None, {"epochs": 1}),
}
