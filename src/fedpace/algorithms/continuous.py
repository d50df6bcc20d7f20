"""Everybody trains all the time.

DeFedAvg: delayed federated averaging, nIID and IID forms. AsySG: Lian et al., NeurIPS 2015.
FAVANO: Leconte et al. 2023. QuAFL: Zakerinia et al. 2022.
"""

from __future__ import annotations

from fedpace.aggregate import Pooled
from fedpace.algorithm import Algorithm
from fedpace.algorithms.parts import Epochs, Select, Steps, local
from fedpace.errors import require
from fedpace.pace import Arrivals, Interrupting, Polled, selection
from fedpace.server_opt import Momentum


def defedavg_niid(
    client_lr: float = 0.1,
    steps: Steps = None,
    epochs: Epochs = None,
    batch_size: int | None = 10,
    draws: int = 10,
    server_lr: float = 1.0,
    beta: float = 0.0,
    nu: float = 0.0,
    reuse_model: bool = False,
    energy_saving: bool = False,
    select: Select = "replacement",
) -> Algorithm:
    """Draw whose stored update to use, with replacement: unbiased whatever the speeds."""
    return Algorithm(
        name="defedavg_niid",
        pace=Polled(draws, selection(select), reuse_model, energy_saving),
        local=local(client_lr, steps, epochs, batch_size),
        server_opt=Momentum(server_lr, beta, nu),
    )


def defedavg_iid(
    client_lr: float = 0.1,
    steps: Steps = None,
    epochs: Epochs = None,
    batch_size: int | None = 10,
    buffer: int = 10,
    server_lr: float = 1.0,
    beta: float = 0.0,
    nu: float = 0.0,
    reuse_model: bool = False,
    distinct: bool = False,
) -> Algorithm:
    """The first `buffer` updates to finish, from anybody, make a step: fast, for clients that are alike."""
    return Algorithm(
        name="defedavg_iid",
        pace=Arrivals(buffer, reuse_model, distinct),
        local=local(client_lr, steps, epochs, batch_size),
        server_opt=Momentum(server_lr, beta, nu),
    )


def asysg(
    batch_size: int | None = 10,
    buffer: int = 10,
    server_lr: float = 0.1,
    client_lr: float = 1.0,
    aggregate: str = "mean",
    reuse_model: bool = False,
) -> Algorithm:
    """Asynchronous SGD: one gradient per session, `buffer` of them make a step of `server_lr`."""
    require(aggregate in ("mean", "sum"), "aggregate", aggregate, "mean or sum")
    return Algorithm(
        name="asysg",
        pace=Arrivals(buffer, reuse_model),
        local=local(client_lr, 1, None, batch_size),
        server_opt=Momentum(server_lr if aggregate == "mean" else server_lr * buffer),
    )


def favano(
    client_lr: float = 0.1,
    steps: Steps = None,
    epochs: Epochs = None,
    batch_size: int | None = 10,
    clients_per_round: int = 10,
    server_period: float | None = None,
    rescale: str = "steps",
    select: Select = "uniform",
) -> Algorithm:
    """Interrupt clients at the server's own rhythm and rescale their partial progress.

    `steps` (or `epochs`) is the most they do; 50 where nothing is said.
    """
    return Algorithm(
        name="favano",
        pace=Interrupting(clients_per_round, server_period, False, selection(select)),
        local=local(client_lr, 50 if steps is None and epochs is None else steps, epochs, batch_size),
        aggregate=Pooled(rescale),
    )


def quafl(
    client_lr: float = 0.1,
    steps: Steps = None,
    epochs: Epochs = None,
    batch_size: int | None = 10,
    clients_per_round: int = 10,
    server_period: float | None = None,
    select: Select = "uniform",
) -> Algorithm:
    """Interrupt clients at the server's own rhythm; server and clients average each other's models.

    `steps` (or `epochs`) is the most they do; 50 where nothing is said.
    """
    return Algorithm(
        name="quafl",
        pace=Interrupting(clients_per_round, server_period, True, selection(select)),
        local=local(client_lr, 50 if steps is None and epochs is None else steps, epochs, batch_size),
        aggregate=Pooled(None),
    )
