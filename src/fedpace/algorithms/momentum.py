"""Server momentum. Sun, Wu, Huang & Zhang, "On the Role of Server Momentum in Federated Learning", AAAI 2024."""

from __future__ import annotations

from collections.abc import Sequence

from fedpace.aggregate import PerStep
from fedpace.algorithm import Algorithm
from fedpace.algorithms.parts import Epochs, Select, Steps, local, synchronous, weighted
from fedpace.pace import Buffered, Pace, Replayed, selection
from fedpace.server_opt import Momentum
from fedpace.server_opt.protocol import ServerOpt
from fedpace.theory import multistage


def fedgm(
    client_lr: float = 0.1,
    steps: Steps = None,
    epochs: Epochs = None,
    batch_size: int | None = 10,
    clients_per_round: int | None = None,
    server_lr: float = 1.0,
    beta: float = 0.9,
    nu: float = 0.9,
    weighting: str = "uniform",
    select: Select = "uniform",
) -> Algorithm:
    """General (quasi-hyperbolic) server momentum: nu=0 FedAvg, nu=1 FedAvgM, nu=beta FedNAG.

    The paper calls nu=0 "FedSGD": FedAvg with a server rate, not the one-step `fedsgd`.
    """
    return Algorithm(
        name="fedgm",
        pace=synchronous(clients_per_round, select),
        local=local(client_lr, steps, epochs, batch_size),
        aggregate=weighted(weighting),
        server_opt=Momentum(server_lr, beta, nu),
    )


def fedavgm(
    client_lr: float = 0.1,
    steps: Steps = None,
    epochs: Epochs = None,
    batch_size: int | None = 10,
    clients_per_round: int | None = None,
    server_lr: float = 1.0,
    beta: float = 0.9,
    weighting: str = "uniform",
    select: Select = "uniform",
) -> Algorithm:
    """Server heavy ball, damped: FedGM with nu = 1 (Hsu et al.'s undamped rate is server_lr (1 - beta))."""
    return Algorithm(
        name="fedavgm",
        pace=synchronous(clients_per_round, select),
        local=local(client_lr, steps, epochs, batch_size),
        aggregate=weighted(weighting),
        server_opt=Momentum(server_lr, beta, 1.0),
    )


def fednag(
    client_lr: float = 0.1,
    steps: Steps = None,
    epochs: Epochs = None,
    batch_size: int | None = 10,
    clients_per_round: int | None = None,
    server_lr: float = 1.0,
    beta: float = 0.9,
    weighting: str = "uniform",
    select: Select = "uniform",
) -> Algorithm:
    """Nesterov momentum on the server: FedGM with nu = beta."""
    return Algorithm(
        name="fednag",
        pace=synchronous(clients_per_round, select),
        local=local(client_lr, steps, epochs, batch_size),
        aggregate=weighted(weighting),
        server_opt=Momentum(server_lr, beta, beta),
    )


def multistage_fedgm(
    client_lr: float = 0.1,
    steps: Steps = None,
    epochs: Epochs = None,
    batch_size: int | None = 10,
    clients_per_round: int | None = None,
    server_lr: Sequence[float] = (2.0, 1.0, 0.5),
    rounds: int = 500,
    beta: float = 0.9,
    nu: float | None = None,
    couple: str = "nu",
    weighting: str = "uniform",
    select: Select = "uniform",
) -> Algorithm:
    """FedGM whose rates drop in stages; stage ends and momenta follow from the rates (Algorithm 3, Eq. 3).

    `nu` is 0.9 where nothing is said, and beta's with `couple="nag"`.
    """
    return Algorithm(
        name="multistage_fedgm",
        pace=synchronous(clients_per_round, select),
        local=local(client_lr, steps, epochs, batch_size),
        aggregate=weighted(weighting),
        server_opt=multistage(server_lr, rounds, beta, _nu(nu, couple), couple),
    )


def autonomous_fedgm(
    client_lr: float = 0.1,
    steps: Steps = None,
    epochs: Epochs = None,
    batch_size: int | None = 10,
    buffer: int = 10,
    concurrency: int | None = 20,
    dispatch: str = "immediate",
    clients_per_round: int | None = None,
    history: int | None = None,
    delays: Sequence[Sequence[int]] | None = None,
    server_lr: float | Sequence[float] = 1.0,
    rounds: int = 500,
    beta: float = 0.9,
    nu: float | None = None,
    couple: str = "nu",
    k_ref: float | str = 1.0,
    select: Select = "uniform",
) -> Algorithm:
    """FedGM for clients that come when they like, from stale models, with work of their own choice (Algorithm 4).

    `history=None` is event-driven: a step whenever `buffer` updates have come. `history=R` is the paper's own
    simulation: rounds whose clients start from one of the last R models. Several `server_lr` make stages.
    `nu` is 0.9 where nothing is said, and beta's with `couple="nag"`.
    """
    pace: Pace = Buffered(buffer, concurrency, dispatch, selection(select))
    if history is not None:
        pace = Replayed(history, clients_per_round, selection(select), delays)
    return Algorithm(
        name="autonomous_fedgm",
        pace=pace,
        local=local(client_lr, steps, epochs, batch_size),
        aggregate=PerStep(k_ref),
        server_opt=_momentum_or_stages(server_lr, rounds, beta, nu, couple),
    )


def _momentum_or_stages(
    server_lr: float | Sequence[float], rounds: int, beta: float, nu: float | None, couple: str
) -> ServerOpt:
    if isinstance(server_lr, Sequence):
        return multistage(server_lr, rounds, beta, _nu(nu, couple), couple)
    nu = _nu(nu, couple)
    return Momentum(server_lr, beta, beta if nu is None else nu)


def _nu(nu: float | None, couple: str) -> float | None:
    """None stays open only where beta decides."""
    return 0.9 if nu is None and couple != "nag" else nu
