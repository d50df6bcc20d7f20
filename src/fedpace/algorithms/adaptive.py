"""Adaptive server optimizers. Reddi et al., ICLR 2021 (FedOpt); Wang, Lin & Chen, ICML 2022 (FedAMS)."""

from __future__ import annotations

from fedpace.algorithm import Algorithm
from fedpace.algorithms.parts import Epochs, Select, Steps, local, synchronous, weighted
from fedpace.server_opt import Adagrad, Adam, AMSGrad, Yogi
from fedpace.server_opt.protocol import ServerOpt


def _adaptive(
    name: str,
    server_opt: ServerOpt,
    client_lr: float,
    steps: Steps,
    epochs: Epochs,
    batch_size: int | None,
    clients_per_round: int | None,
    weighting: str,
    select: Select,
) -> Algorithm:
    return Algorithm(
        name=name,
        pace=synchronous(clients_per_round, select),
        local=local(client_lr, steps, epochs, batch_size),
        aggregate=weighted(weighting),
        server_opt=server_opt,
    )


def fedadam(
    client_lr: float = 0.1,
    steps: Steps = None,
    epochs: Epochs = None,
    batch_size: int | None = 10,
    clients_per_round: int | None = None,
    server_lr: float = 0.03,
    b1: float = 0.9,
    b2: float = 0.99,
    eps: float = 1e-3,
    weighting: str = "uniform",
    select: Select = "uniform",
) -> Algorithm:
    """Adam on the mean displacement, without bias correction."""
    opt = Adam(server_lr, b1, b2, eps)
    return _adaptive(
        "fedadam", opt, client_lr, steps, epochs, batch_size, clients_per_round, weighting, select
    )


def fedyogi(
    client_lr: float = 0.1,
    steps: Steps = None,
    epochs: Epochs = None,
    batch_size: int | None = 10,
    clients_per_round: int | None = None,
    server_lr: float = 0.03,
    b1: float = 0.9,
    b2: float = 0.99,
    eps: float = 1e-3,
    weighting: str = "uniform",
    select: Select = "uniform",
) -> Algorithm:
    """Yogi: like FedAdam, with a second moment that moves by bounded steps."""
    opt = Yogi(server_lr, b1, b2, eps)
    return _adaptive(
        "fedyogi", opt, client_lr, steps, epochs, batch_size, clients_per_round, weighting, select
    )


def fedadagrad(
    client_lr: float = 0.1,
    steps: Steps = None,
    epochs: Epochs = None,
    batch_size: int | None = 10,
    clients_per_round: int | None = None,
    server_lr: float = 0.03,
    eps: float = 1e-3,
    weighting: str = "uniform",
    select: Select = "uniform",
) -> Algorithm:
    """Adagrad: steps shrink with the sum of squared displacements."""
    opt = Adagrad(server_lr, eps=eps)
    return _adaptive(
        "fedadagrad", opt, client_lr, steps, epochs, batch_size, clients_per_round, weighting, select
    )


def fedams(
    client_lr: float = 0.1,
    steps: Steps = None,
    epochs: Epochs = None,
    batch_size: int | None = 10,
    clients_per_round: int | None = None,
    server_lr: float = 0.03,
    b1: float = 0.9,
    b2: float = 0.99,
    eps: float = 1e-3,
    option: int = 1,
    weighting: str = "uniform",
    select: Select = "uniform",
) -> Algorithm:
    """AMSGrad on the server, max stabilised (option 1) or with eps under the root (option 2)."""
    opt = AMSGrad(server_lr, b1, b2, eps, option)
    return _adaptive(
        "fedams", opt, client_lr, steps, epochs, batch_size, clients_per_round, weighting, select
    )
