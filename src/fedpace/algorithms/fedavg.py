"""Federated averaging. McMahan et al., AISTATS 2017."""

from __future__ import annotations

from typing import Unpack

from fedpace.algorithm import Algorithm
from fedpace.algorithms.named import named
from fedpace.algorithms.parameters import ClientSampling, OneStep, Synchronous, rounds
from fedpace.server_opt import Momentum


@named()
def fedavg(*, momentum: float = 0.0, server_lr: float = 1.0, **shared: Unpack[Synchronous]) -> Algorithm:
    """Average the clients' models after local training; `server_lr` scales the mean displacement.

    >>> from fedpace import algorithms
    >>> algorithms.fedavg(epochs=2, clients_per_round=20).pace
    Rounds(clients_per_round=20, select=Uniform(), patience_s=None)
    """
    return Algorithm(**rounds(shared, momentum=momentum), server_opt=Momentum(server_lr))


class SampledOneStep(OneStep, ClientSampling, total=False):
    """Rounds of sampled clients that take one step each."""


@named(batch_size=None)
def fedsgd(*, server_lr: float = 1.0, **shared: Unpack[SampledOneStep]) -> Algorithm:
    """One local step per client, by default on its full batch: distributed gradient descent (McMahan et al.).

    Sun et al. call general momentum with nu = 0 "FedSGD"; that one takes local steps and is our fedavg with a
    `server_lr`.
    """
    return Algorithm(**rounds({**shared, "steps": 1, "epochs": None}), server_opt=Momentum(server_lr))
