"""FLSim, FedAvg and FedBuff: pip install flsim torch

Its asynchronous trainer makes whole passes over the clients, whose time is scaled to the steps asked for, and
knows no number of clients in flight: they start at a rate and take a time whose product that number is.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import hydra.utils
import same
import torch

for name in ("opacus", "sklearn.metrics", "torch.utils.tensorboard", "torchvision.datasets"):
    importlib.import_module(name)  # what FLSim imports; the change below is for its own classes
plain = dataclasses.dataclass
dataclasses.dataclass = functools.partial(plain, unsafe_hash=True)  # else Python 3.11 refuses their defaults
from flsim.clients.base_client import ClientConfig  # noqa: E402
from flsim.optimizers.async_aggregators import FedAvgWithLRFedBuffAggregatorConfig  # noqa: E402
from flsim.optimizers.local_optimizers import LocalOptimizerSGDConfig  # noqa: E402
from flsim.optimizers.server_optimizers import FedAvgWithLROptimizerConfig  # noqa: E402
from flsim.servers.sync_servers import SyncServerConfig  # noqa: E402
from flsim.trainers.async_trainer import AsyncTrainerConfig  # noqa: E402
from flsim.trainers.sync_trainer import SyncTrainerConfig  # noqa: E402
from flsim.utils.async_trainer.training_event_generator import (  # noqa: E402
    AsyncTrainingEventGeneratorConfig,
    PoissonAsyncTrainingStartTimeDistrConfig,
)
from flsim.utils.example_utils import DataProvider, FLModel  # noqa: E402
from flsim.utils.timing.training_duration_distribution import (  # noqa: E402
    PerUserGaussianDurationDistributionConfig,
)

dataclasses.dataclass = plain

WORKLOAD = sys.argv[1]
COMMON: dict[str, Any] = {
    "epochs": 1,
    "do_eval": False,
    "report_train_metrics": False,
    "always_keep_trained_model": True,
    "client": ClientConfig(epochs=1, optimizer=LocalOptimizerSGDConfig(lr=same.LR)),
}


class Loader:
    """The clients' data in batches, as FLSim's own examples hand it over."""

    def fl_train_set(self) -> Iterator[dict[str, Any]]:
        for client in range(same.CLIENTS[WORKLOAD]):
            images, labels = same.one_epoch(WORKLOAD, client)
            batches = [part.split(same.BATCH) for part in (images, labels)]
            yield {"features": [list(b) for b in batches[0]], "labels": [b.tolist() for b in batches[1]]}

    def fl_eval_set(self) -> list[Any]:
        return []

    fl_test_set = fl_eval_set


def fedavg() -> SyncTrainerConfig:
    server = SyncServerConfig(server_optimizer=FedAvgWithLROptimizerConfig(lr=1.0))
    return SyncTrainerConfig(users_per_round=same.PER_ROUND, server=server, **COMMON)


def fedbuff() -> AsyncTrainerConfig:
    times = AsyncTrainingEventGeneratorConfig(
        training_start_time_distribution=PoissonAsyncTrainingStartTimeDistrConfig(training_rate=1.0),
        duration_distribution_generator=PerUserGaussianDurationDistributionConfig(
            training_duration_mean=same.CONCURRENCY, training_duration_sd=same.CONCURRENCY / 4
        ),
    )
    buffer = FedAvgWithLRFedBuffAggregatorConfig(lr=1.0, buffer_size=same.PER_ROUND)
    return AsyncTrainerConfig(aggregator=buffer, training_event_generator=times, **COMMON)


def prepare() -> Callable[[int], float]:
    torch.set_num_threads(same.threads(WORKLOAD))
    clients = DataProvider(Loader())
    config = fedbuff() if WORKLOAD == "W4" else fedavg()
    trainer = hydra.utils.instantiate(config, model=FLModel(same.network(WORKLOAD)), cuda_enabled=False)

    def seconds(rounds: int) -> float:
        """A synchronous pass takes the rounds that so many clients need; an asynchronous one knows only all."""
        began = time.perf_counter()
        trainer.train(clients, None, num_total_users=rounds * same.PER_ROUND, distributed_world_size=1)
        took = time.perf_counter() - began
        solves = same.CLIENTS[WORKLOAD] if WORKLOAD == "W4" else rounds * same.PER_ROUND
        return took * rounds * same.PER_ROUND / solves

    return seconds


if __name__ == "__main__":
    same.serve(prepare)
