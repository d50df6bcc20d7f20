"""Flower's simulation, a Ray actor per core: pip install "flwr[simulation]" torch"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import same
import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

WORKLOAD = sys.argv[1]
client_app = ClientApp()


@client_app.train()
def train(message: Message, context: Context) -> Message:
    torch.set_num_threads(1)
    model = same.network(WORKLOAD)
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    steps(model, int(context.node_config["partition-id"]))
    metrics = MetricRecord({"num-examples": same.SAMPLES[WORKLOAD]})
    content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics})
    return Message(content=content, reply_to=message)


def steps(model: torch.nn.Module, client: int) -> None:
    """Local training is the user's own in Flower: this is what its examples do, without a DataLoader's cost."""
    images, labels = same.one_epoch(WORKLOAD, client)
    optimizer = torch.optim.SGD(model.parameters(), same.LR)
    for picks in torch.randperm(len(labels)).split(same.BATCH):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images[picks]), labels[picks]).backward()
        optimizer.step()


class Timed(FedAvg):
    """Remembers when each round was aggregated: starting Ray is not a part of a round."""

    ends: list[float]

    def aggregate_train(self, server_round: int, replies: Any) -> Any:
        result = super().aggregate_train(server_round, replies)
        self.ends.append(time.perf_counter())
        return result


def seconds(rounds: int) -> float:
    clients = same.CLIENTS[WORKLOAD]
    share = same.PER_ROUND / clients
    strategy = Timed(
        fraction_train=share,
        fraction_evaluate=0.0,
        min_train_nodes=same.PER_ROUND,
        min_available_nodes=clients,
    )
    strategy.ends = []
    server_app = ServerApp()

    @server_app.main()
    def main(grid: Grid, context: Context) -> None:
        start = ArrayRecord(same.network(WORKLOAD).state_dict())
        strategy.start(grid=grid, initial_arrays=start, num_rounds=rounds + 1)

    run_simulation(
        server_app, client_app, clients, backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
    )
    return strategy.ends[-1] - strategy.ends[0]


if __name__ == "__main__":
    os.environ.update(FLWR_TELEMETRY_ENABLED="0", RAY_USAGE_STATS_ENABLED="0")
    same.serve(lambda: seconds)
