"""Unequal local work.

FedProx: Li et al., MLSys 2020. FedNova and FedNova-VR: Wang et al., NeurIPS 2020.
SCAFFOLD: Karimireddy et al., ICML 2020.
"""

from __future__ import annotations

from fedpace.aggregate import Normalised
from fedpace.algorithm import Algorithm
from fedpace.algorithms.parts import Epochs, Select, Steps, local, synchronous, weighted
from fedpace.local import Scaffold, VarianceReduced
from fedpace.server_opt import Momentum


def fedprox(
    client_lr: float = 0.1,
    steps: Steps = None,
    epochs: Epochs = None,
    batch_size: int | None = 10,
    clients_per_round: int | None = None,
    prox_mu: float = 0.01,
    momentum: float = 0.0,
    server_lr: float = 1.0,
    beta: float = 0.0,
    nu: float = 0.0,
    weighting: str = "samples",
    select: Select = "uniform",
) -> Algorithm:
    """FedAvg whose clients are pulled back to the model they received; prox_mu=0 is FedAvg."""
    return Algorithm(
        name="fedprox",
        pace=synchronous(clients_per_round, select),
        local=local(client_lr, steps, epochs, batch_size, prox_mu=prox_mu, momentum=momentum),
        aggregate=weighted(weighting),
        server_opt=Momentum(server_lr, beta, nu),
    )


def fednova(
    client_lr: float = 0.1,
    steps: Steps = None,
    epochs: Epochs = None,
    batch_size: int | None = 10,
    clients_per_round: int | None = None,
    tau_eff: str | float = "population",
    momentum: float = 0.0,
    prox_mu: float = 0.0,
    server_lr: float = 1.0,
    beta: float = 0.0,
    nu: float = 0.0,
    weighting: str = "samples",
    select: Select = "uniform",
) -> Algorithm:
    """Average normalised updates, so that clients that do more steps do not pull the optimum to themselves.

    `tau_eff`: "population" (the same for every round, so that sampled rounds are unbiased), "sampled" (of a round's
    own clients, as the listing has it), "steps" or a number. `momentum` is the clients', `beta` and `nu` the
    server's; both together are the paper's hybrid (its undamped factor gmf is beta = gmf, nu = 1,
    server_lr = 1 / (1 - gmf)).
    """
    return Algorithm(
        name="fednova",
        pace=synchronous(clients_per_round, select),
        local=local(client_lr, steps, epochs, batch_size, momentum=momentum, prox_mu=prox_mu),
        aggregate=Normalised(tau_eff, weighting),
        server_opt=Momentum(server_lr, beta, nu),
    )


def fednova_vr(
    client_lr: float = 0.1,
    steps: Steps = None,
    epochs: Epochs = None,
    batch_size: int | None = 10,
    clients_per_round: int | None = None,
    tau_eff: str | float = "population",
    momentum: float = 0.0,
    prox_mu: float = 0.0,
    accumulate: bool = True,
    server_lr: float = 1.0,
    beta: float = 0.0,
    nu: float = 0.0,
    weighting: str = "samples",
    select: Select = "uniform",
) -> Algorithm:
    """FedNova with cross-client variance reduction; `accumulate=False` is the rule as printed, which stops short."""
    return Algorithm(
        name="fednova_vr",
        pace=synchronous(clients_per_round, select),
        local=local(client_lr, steps, epochs, batch_size, momentum=momentum, prox_mu=prox_mu),
        aggregate=Normalised(tau_eff, weighting),
        server_opt=Momentum(server_lr, beta, nu),
        correction=VarianceReduced(accumulate, weighting),
    )


def scaffold(
    client_lr: float = 0.1,
    steps: Steps = None,
    epochs: Epochs = None,
    batch_size: int | None = 10,
    clients_per_round: int | None = None,
    server_lr: float = 1.0,
    beta: float = 0.0,
    nu: float = 0.0,
    weighting: str = "uniform",
    select: Select = "uniform",
) -> Algorithm:
    """Control variates move every local gradient towards everybody's mean, which removes client drift."""
    return Algorithm(
        name="scaffold",
        pace=synchronous(clients_per_round, select),
        local=local(client_lr, steps, epochs, batch_size),
        aggregate=weighted(weighting),
        server_opt=Momentum(server_lr, beta, nu),
        correction=Scaffold(),
    )
