"""pfl-research, a process per core: pip install "pfl[pytorch]" torch"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import numpy as np
import same
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam.base import NNTrainHyperParams
from pfl.internal.ops import pytorch_ops
from pfl.internal.ops.selector import set_framework_module
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel

WORKLOAD = sys.argv[1]


class Network(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = same.network(WORKLOAD)

    def loss(self, inputs: Any, targets: Any, eval: bool = False) -> Any:
        self.eval() if eval else self.train()
        return torch.nn.functional.cross_entropy(self.inner(inputs), targets)

    def metrics(self, inputs: Any, targets: Any, eval: bool = False) -> dict[str, Any]:
        return {}


class Stop(TrainingProcessCallback):
    """Remembers when each round ended."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def after_central_iteration(self, metrics: Any, model: Any, *, central_iteration: int) -> Any:
        self.ends.append(time.perf_counter())
        return False, Metrics()


def client(number: int) -> Dataset:
    images, labels = same.data(WORKLOAD, number)
    return Dataset(raw_data=[torch.from_numpy(images), torch.from_numpy(labels)], user_id=str(number))


def seconds(rounds: int) -> float:
    sampler = get_user_sampler("random", list(range(same.CLIENTS[WORKLOAD])))
    backend = SimulatedBackend(training_data=FederatedDataset(client, sampler), val_data=None)
    network = Network()
    model = PyTorchModel(network, torch.optim.SGD, torch.optim.SGD(network.parameters(), 1.0))
    params = NNAlgorithmParams(
        central_num_iterations=rounds + 1,
        evaluation_frequency=10**6,
        train_cohort_size=same.PER_ROUND,
        val_cohort_size=0,
    )
    local = NNTrainHyperParams(
        local_num_epochs=None,
        local_num_steps=same.STEPS[WORKLOAD],
        local_learning_rate=same.LR,
        local_batch_size=same.BATCH,
    )
    stop = Stop()
    FederatedAveraging().run(params, backend, model, local, callbacks=[stop])
    return stop.ends[-1] - stop.ends[0]


def together(rounds: int = 0) -> float:
    """The first process says how many rounds all of them train; none is the end."""
    told = [rounds]
    torch.distributed.broadcast_object_list(told)
    return seconds(told[0]) if told[0] else 0.0


def main() -> None:
    if "RANK" not in os.environ:
        run = ["-m", "torch.distributed.run", "--nproc-per-node", str(os.cpu_count())]
        os.execv(sys.executable, [sys.executable, *run, *sys.argv])
    torch.set_num_threads(1)
    np.random.seed(0)  # pfl's processes have to draw the same clients
    set_framework_module(pytorch_ops)
    if os.environ["RANK"] == "0":
        same.serve(lambda: together)
        together()
    else:
        while together():
            pass
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
