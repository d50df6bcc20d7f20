"""Personalisation: parameters, models or linear terms that stay on the clients.

FedPer: Arivazhagan et al. 2019. FedBN: Li et al., ICLR 2021. FedRep: Collins et al., ICML 2021.
Ditto: Li et al., ICML 2021. FedDyn: Acar et al., ICLR 2021.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from fedpace.aggregate import DynamicMean
from fedpace.algorithm import Algorithm
from fedpace.algorithms.named import named
from fedpace.algorithms.parameters import Epochs, LocalTraining, Select, Synchronous, rounds, training
from fedpace.local import Ditto, DynamicTerm, Private
from fedpace.local.personal.private import BATCH_NORM, LAST_LAYER
from fedpace.server_opt import Momentum

Patterns = str | Sequence[str]


class SampledRounds(LocalTraining, total=False):
    """Rounds of sampled clients that all count the same."""

    clients_per_round: int | None
    select: Select


@named()
def fedper(
    *,
    private: Patterns = LAST_LAYER,
    momentum: float = 0.0,
    server_lr: float = 1.0,
    **shared: Unpack[Synchronous],
) -> Algorithm:
    """Personalisation layers: each client keeps its last layer, or those in `private`; the others are averaged.

    A model of one layer has no other to average: with "last-layer" nothing of it is private, and this is fedavg.
    """
    rules = rounds(shared, momentum=momentum)
    return Algorithm(**rules, personal=Private(private), server_opt=Momentum(server_lr))  # type: ignore[arg-type]


@named()
def fedbn(*, momentum: float = 0.0, server_lr: float = 1.0, **shared: Unpack[Synchronous]) -> Algorithm:
    """Every client keeps the weights and biases of its BatchNorm layers; without such layers this is fedavg."""
    rules = rounds(shared, momentum=momentum)
    return Algorithm(**rules, personal=Private(BATCH_NORM), server_opt=Momentum(server_lr))


@named()
def fedrep(
    *,
    private: Patterns = LAST_LAYER,
    head_epochs: Epochs = 10,
    momentum: float = 0.0,
    server_lr: float = 1.0,
    **shared: Unpack[Synchronous],
) -> Algorithm:
    """Shared representation: a client first trains its private head, then the shared body with the head fixed."""
    alone: LocalTraining = {
        "client_lr": shared["client_lr"],
        "batch_size": shared["batch_size"],
        "clip": None,
        "steps": None,
        "epochs": head_epochs,
    }
    head = training(alone, momentum=momentum)["local"]
    rules = rounds(shared, momentum=momentum)
    kept = Private(private, head)  # type: ignore[arg-type]
    return Algorithm(**rules, personal=kept, server_opt=Momentum(server_lr))


@named()
def ditto(*, lam: float = 0.1, server_lr: float = 1.0, **shared: Unpack[Synchronous]) -> Algorithm:
    """FedAvg plus a personal model on every client, regularised towards the global one with strength `lam`."""
    rules = rounds(shared)
    Ditto(lam, rules["local"])  # refuses a pull that overshoots at this learning rate
    return Algorithm(**rules, personal=Ditto(lam), server_opt=Momentum(server_lr))


@named()
def feddyn(*, prox_mu: float = 0.1, **shared: Unpack[SampledRounds]) -> Algorithm:
    """Dynamic regularisation: linear terms on the clients and their sum on the server remove client drift.

    `prox_mu` is the paper's alpha. Unlike scaffold it sends nothing beside the update.
    """
    rules = rounds({**shared, "weighting": "uniform"}, prox_mu=prox_mu)
    return Algorithm(**{**rules, "aggregate": DynamicMean()}, personal=DynamicTerm())
