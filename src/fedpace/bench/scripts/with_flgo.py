"""FLGo, FedAvg and FedBuff: pip install flgo torch

FLGo takes a task from a file: this one, which it copies and imports. Its FedBuff steps on ten updates or more,
as many as arrive at the same tick of its clock; what is reported is the time of ten.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import flgo
import same
import torch
from flgo.algorithm import fedavg, fedbuff
from torch.utils.data import TensorDataset

WORKLOAD = sys.argv[1]
SCRIPT = os.path.abspath(__file__)
METHOD = fedbuff if WORKLOAD == "W4" else fedavg
AT_ONCE = same.CONCURRENCY if WORKLOAD == "W4" else same.PER_ROUND
OPTION = {
    "proportion": AT_ONCE / same.CLIENTS[WORKLOAD],
    "batch_size": same.BATCH,
    "num_steps": same.STEPS[WORKLOAD],
    "learning_rate": same.LR,
    "train_holdout": 0.0,
    "eval_interval": -1,
    "torch_num_threads": same.threads(WORKLOAD),
    "no_tqdm": True,
    "no_log_console": True,
}
if WORKLOAD == "W4":
    OPTION |= {"algo_para": [same.PER_ROUND / same.CLIENTS[WORKLOAD], 1.0], "responsiveness": "UNI-10-200"}
STEPS: list[tuple[float, int]] = []

train_data = [
    TensorDataset(*map(torch.from_numpy, same.data(WORKLOAD, k))) for k in range(same.CLIENTS[WORKLOAD])
]


def get_model() -> Any:
    return same.network(WORKLOAD)


def data_to_device(batch: Any, device: Any) -> Any:
    return [part.to(device) for part in batch]


def compute_loss(model: Any, batch: Any, device: Any) -> dict[str, Any]:
    images, labels = batch
    return {"loss": torch.nn.functional.cross_entropy(model(images), labels)}


def eval(model: Any, loader: Any, device: Any) -> dict[str, Any]:
    return {}


class Algorithm:
    """FLGo's own, with a server that remembers when it stepped, and how many clients had been trained by then."""

    class Server(METHOD.Server):
        trained = 0

        def iterate(self) -> Any:
            updated = super().iterate()
            self.trained += len(self.selected_clients)
            if updated:
                STEPS.append((time.perf_counter(), self.trained))
            return updated

    Client = METHOD.Client


def prepare() -> Callable[[int], float]:
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder)
    os.chdir(folder)
    sys.path.append(folder)
    server = flgo.init(flgo.gen_direct_task_from_file("task", SCRIPT), Algorithm, OPTION)

    def seconds(rounds: int) -> float:
        STEPS.clear()
        server.num_rounds = server.current_round + rounds
        server.run()
        (began, before), (ended, after) = STEPS[0], STEPS[-1]
        return (ended - began) / (after - before) * same.PER_ROUND * rounds

    return seconds


if __name__ == "__main__":
    same.serve(prepare)
