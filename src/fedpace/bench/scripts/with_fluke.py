"""fluke, FedAvg: pip install fluke-fl torch"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import same
import torch
from fluke import FlukeENV
from fluke.algorithms.fedavg import FedAVG
from fluke.client import Client
from fluke.config import OptimizerConfigurator
from fluke.data import FastDataLoader
from fluke.server import Server
from fluke.utils import FederationObserver

WORKLOAD = sys.argv[1]
SGD = OptimizerConfigurator({"name": "SGD", "lr": same.LR})


def client(number: int) -> Client:
    batches = FastDataLoader(
        *same.one_epoch(WORKLOAD, number), num_labels=10, batch_size=same.BATCH, shuffle=True
    )
    return Client(number, batches, None, SGD, torch.nn.CrossEntropyLoss(), local_epochs=1)


class Ends(FederationObserver):
    """Remembers when each round ended."""

    times: list[float] = []

    def end_round(self, round: int) -> None:
        self.times.append(time.perf_counter())


def prepare() -> Callable[[int], float]:
    torch.set_num_threads(same.threads(WORKLOAD))
    FlukeENV().set_eval_cfg(pre_fit=False, post_fit=False, locals=False, server=False)
    clients = [client(number) for number in range(same.CLIENTS[WORKLOAD])]
    server = Server(same.network(WORKLOAD), None, clients)
    federation = FedAVG(len(clients), None, {}, clients, server)
    federation.set_callbacks(Ends())

    def seconds(rounds: int) -> float:
        Ends.times.clear()
        federation.run(rounds + 1, same.PER_ROUND / same.CLIENTS[WORKLOAD])
        return Ends.times[-1] - Ends.times[0]

    return seconds


if __name__ == "__main__":
    same.serve(prepare)
