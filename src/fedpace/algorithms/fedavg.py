"""Federated averaging. McMahan et al., AISTATS 2017."""

from __future__ import annotations

from fedpace.algorithm import Algorithm
from fedpace.algorithms.parts import Epochs, Select, Steps, local, synchronous, weighted
from fedpace.server_opt import Momentum


def fedavg(
    client_lr: float = 0.1,
    steps: Steps = None,
    epochs: Epochs = None,
    batch_size: int | None = 10,
    clients_per_round: int | None = None,
    momentum: float = 0.0,
    server_lr: float = 1.0,
    weighting: str = "uniform",
    select: Select = "uniform",
) -> Algorithm:
    """Average the clients' models after local training; `server_lr` scales the mean displacement."""
    return Algorithm(
        name="fedavg",
        pace=synchronous(clients_per_round, select),
        local=local(client_lr, steps, epochs, batch_size, momentum=momentum),
        aggregate=weighted(weighting),
        server_opt=Momentum(server_lr),
    )


def fedsgd(
    client_lr: float = 0.1,
    batch_size: int | None = None,
    clients_per_round: int | None = None,
    server_lr: float = 1.0,
    weighting: str = "uniform",
    select: Select = "uniform",
) -> Algorithm:
    """One local step each, by default on all of a client's data: distributed gradient descent (McMahan et al.).

    Sun et al. call general momentum with nu = 0 "FedSGD"; that one takes local steps and is our fedavg with a
    `server_lr`.
    """
    return Algorithm(
        name="fedsgd",
        pace=synchronous(clients_per_round, select),
        local=local(client_lr, 1, None, batch_size),
        aggregate=weighted(weighting),
        server_opt=Momentum(server_lr),
    )
