"""APPFL's virtual-time simulation, FedAvg and FedBuff: pip install appfl torch

APPFL takes model, data and metric from a file: this one. Its logs are off, and so is `optimize_memory`, which
collects garbage several times per client and would take most of the time.
"""

from __future__ import annotations

import logging
import os
import random
import sys
import time
from collections.abc import Callable
from typing import Any

import same
import torch
from appfl.agent import ClientAgent, ServerAgent
from appfl.config import ServerAgentConfig
from appfl.vsim import AsyncSimDriver, ClientProfile, SyncSimDriver, VsimLogger
from omegaconf import OmegaConf
from torch.utils.data import TensorDataset

WORKLOAD = sys.argv[1]
SCRIPT = os.path.abspath(__file__)
LEAN = {"optimize_memory": False}
METHOD = {
    "scheduler": "AsyncScheduler" if WORKLOAD == "W4" else "SyncScheduler",
    "aggregator": "FedBuffAggregator" if WORKLOAD == "W4" else "FedAvgAggregator",
    "aggregator_kwargs": {"client_weights_mode": "equal", "K": same.PER_ROUND, **LEAN},
    "scheduler_kwargs": LEAN,
}
TRAINING = {
    "trainer": "VanillaTrainer",
    "mode": "step",
    "num_local_steps": same.STEPS[WORKLOAD],
    "optim": "SGD",
    "optim_args": {"lr": same.LR},
    "loss_fn": "CrossEntropyLoss",
    "metric_path": SCRIPT,
    "metric_name": "metric",
    "train_batch_size": same.BATCH,
    "do_validation": False,
    **LEAN,
}


def model() -> Any:
    return same.network(WORKLOAD)


def dataset(client: int) -> tuple[Any, None]:
    return TensorDataset(*map(torch.from_numpy, same.data(WORKLOAD, client))), None


def metric(truth: Any, scores: Any) -> float:
    """Accuracy in training, which APPFL always asks for."""
    return float((truth == scores.argmax(-1)).mean())


class Server(ServerAgent):
    """APPFL's, which remembers when each update had been taken in."""

    taken: list[float] = []

    def global_update(self, *args: Any, **kwargs: Any) -> Any:
        result = super().global_update(*args, **kwargs)
        self.taken.append(time.perf_counter())
        return result


def server() -> Server:
    shared = {"train_configs": TRAINING, "model_configs": {"model_path": SCRIPT, "model_name": "model"}}
    own = {"num_clients": same.CLIENTS[WORKLOAD], "num_global_epochs": 10**9, **METHOD, **LEAN}
    return Server(ServerAgentConfig(OmegaConf.create(shared), OmegaConf.create(own)))


def client(number: int, shared: Any) -> ClientAgent:
    data = {"dataset_path": SCRIPT, "dataset_name": "dataset", "dataset_kwargs": {"client": number}}
    no_file = {"logging_output_dirname": "", "logging_output_filename": ""}
    own = {"client_id": str(number), "train_configs": no_file, "data_configs": data, **LEAN}
    agent = ClientAgent(OmegaConf.create(own))
    agent.load_config(shared)
    return agent


def prepare() -> Callable[[int], float]:
    torch.set_num_threads(same.threads(WORKLOAD))
    logging.disable()
    center = server()
    shared = center.get_client_configs()
    clients = [client(number, shared) for number in range(same.CLIENTS[WORKLOAD])]
    profiles = {agent.get_id(): ClientProfile(random.uniform(0.5, 1.5)) for agent in clients}
    common = {"logger": VsimLogger(), "base_step_time": 0.01}

    def seconds(rounds: int) -> float:
        center.taken.clear()
        if WORKLOAD == "W4":
            so_far = center.scheduler.get_num_global_epochs()
            last = so_far + (rounds + 1) * same.PER_ROUND
            center.server_agent_config.server_configs.num_global_epochs = last
            AsyncSimDriver(center, clients, profiles, same.CONCURRENCY, **common).run()
        else:
            driver = SyncSimDriver(
                center, clients, profiles, same.PER_ROUND, target_rounds=rounds + 1, **common
            )
            driver.run()
        return center.taken[-1] - center.taken[same.PER_ROUND - 1]

    return seconds


if __name__ == "__main__":
    same.serve(prepare)
