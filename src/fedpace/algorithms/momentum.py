"""Server momentum. Sun, Wu, Huang & Zhang, "On the Role of Server Momentum in Federated Learning", AAAI 2024."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from fedpace.aggregate import PerStep
from fedpace.algorithm import Algorithm
from fedpace.algorithms.named import named
from fedpace.algorithms.parameters import (
    BufferedAsync,
    Synchronous,
    SynchronousMomentum,
    buffered,
    momentum_of,
    rounds,
)
from fedpace.pace import Replayed, selection
from fedpace.server_opt import Momentum
from fedpace.server_opt.protocol import ServerOpt
from fedpace.theory import multistage


@named(beta=0.9, nu=0.9)
def fedgm(**shared: Unpack[SynchronousMomentum]) -> Algorithm:
    """General (quasi-hyperbolic) server momentum: nu=0 FedAvg, nu=1 FedAvgM, nu=beta FedNAG.

    The paper calls nu=0 "FedSGD": FedAvg with a server rate, not the one-step `fedsgd`.

    >>> from fedpace import algorithms
    >>> algorithms.fedgm(server_lr=3.0, beta=0.9, nu=0.7).server_opt
    Momentum(lr=3.0, beta=0.9, nu=0.7)
    """
    return Algorithm(**rounds(shared), server_opt=momentum_of(shared))


@named()
def fedavgm(*, server_lr: float = 1.0, beta: float = 0.9, **shared: Unpack[Synchronous]) -> Algorithm:
    """Heavy-ball server momentum, damped: FedGM with nu = 1 (Hsu et al.'s undamped rate is server_lr (1 - beta))."""
    return Algorithm(**rounds(shared), server_opt=Momentum(server_lr, beta, 1.0))


@named()
def fednag(*, server_lr: float = 1.0, beta: float = 0.9, **shared: Unpack[Synchronous]) -> Algorithm:
    """Nesterov momentum on the server: FedGM with nu = beta."""
    return Algorithm(**rounds(shared), server_opt=Momentum(server_lr, beta, beta))


@named()
def multistage_fedgm(
    *,
    server_lr: Sequence[float] = (2.0, 1.0, 0.5),
    rounds: int = 500,
    beta: float = 0.9,
    nu: float | None = None,
    couple: str = "nu",
    **shared: Unpack[Synchronous],
) -> Algorithm:
    """FedGM whose rates drop in stages; stage ends and momenta follow from the rates (Algorithm 3, Eq. 3).

    `nu` is 0.9 by default, and equal to beta with `couple="nag"`.
    """
    stages = multistage(server_lr, rounds, beta, _nu(nu, couple), couple)
    return Algorithm(**_rounds(shared), server_opt=stages)


@named(dispatch="immediate")
def autonomous_fedgm(
    *,
    clients_per_round: int | None = None,
    history: int | None = None,
    delays: Sequence[Sequence[int]] | None = None,
    server_lr: float | Sequence[float] = 1.0,
    rounds: int = 500,
    beta: float = 0.9,
    nu: float | None = None,
    couple: str = "nu",
    k_ref: float | str = 1.0,
    **shared: Unpack[BufferedAsync],
) -> Algorithm:
    """FedGM with asynchronous clients that choose their own local steps, from stale models (Algorithm 4).

    `history=None` is event-driven: a step whenever `buffer` updates have come. `history=R` is the paper's own
    simulation: rounds whose clients start from one of the last R models. Several `server_lr` make stages.
    `nu` is 0.9 by default, and equal to beta with `couple="nag"`.
    """
    rules = buffered(shared)
    if history is not None:
        rules["pace"] = Replayed(history, clients_per_round, selection(shared["select"]), delays)
    opt = _momentum_or_stages(server_lr, rounds, beta, nu, couple)
    return Algorithm(**rules, aggregate=PerStep(k_ref), server_opt=opt)


_rounds = rounds  # `rounds` is also a parameter, whose name the contract has


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
