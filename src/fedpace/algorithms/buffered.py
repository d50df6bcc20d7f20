"""Buffered and immediate asynchrony.

FedBuff: Nguyen et al., AISTATS 2022. FedAsync: Xie, Koyejo & Gupta 2019. CA2FL and MF-CA2FL: Wang et al., ICLR 2024.
"""

from __future__ import annotations

from typing import Any

from fedpace.aggregate import Cached, Mean, Mixing, staleness_weight
from fedpace.algorithm import Algorithm
from fedpace.algorithms.parts import Epochs, Select, Steps, local
from fedpace.pace import Buffered, Immediate, selection
from fedpace.server_opt import Momentum


def fedasync(
    client_lr: float = 0.1,
    steps: Steps = None,
    epochs: Epochs = None,
    batch_size: int | None = 10,
    concurrency: int | None = 20,
    alpha: float = 0.6,
    staleness: Any = "poly",
    prox_mu: float = 0.0,
    max_staleness: int | None = None,
    select: Select = "uniform",
) -> Algorithm:
    """Mix every arriving local model into the server's, less the staler it is; `prox_mu` is the paper's rho."""
    return Algorithm(
        name="fedasync",
        pace=Immediate(concurrency, selection(select), max_staleness),
        local=local(client_lr, steps, epochs, batch_size, prox_mu=prox_mu),
        aggregate=Mixing(alpha, staleness_weight(staleness)),
    )


def fedbuff(
    client_lr: float = 0.1,
    steps: Steps = None,
    epochs: Epochs = None,
    batch_size: int | None = 10,
    buffer: int = 10,
    concurrency: int | None = 20,
    dispatch: str = "batch",
    server_lr: float = 1.0,
    beta: float = 0.0,
    nu: float = 0.0,
    staleness: Any = None,
    max_staleness: int | None = None,
    select: Select = "uniform",
) -> Algorithm:
    """A server step whenever `buffer` updates have come from `concurrency` clients at work."""
    return Algorithm(
        name="fedbuff",
        pace=Buffered(buffer, concurrency, dispatch, selection(select), max_staleness),
        local=local(client_lr, steps, epochs, batch_size),
        aggregate=Mean(staleness_weight(staleness)),
        server_opt=Momentum(server_lr, beta, nu),
    )


def ca2fl(
    client_lr: float = 0.1,
    steps: Steps = None,
    epochs: Epochs = None,
    batch_size: int | None = 10,
    buffer: int = 10,
    concurrency: int | None = 20,
    dispatch: str = "batch",
    server_lr: float = 1.0,
    beta: float = 0.0,
    nu: float = 0.0,
    cache_bits: int = 32,
    spill: str | None = None,
    select: Select = "uniform",
) -> Algorithm:
    """FedBuff calibrated with the last update of every client, which removes the bias of fast clients."""
    return Algorithm(
        name="ca2fl",
        pace=Buffered(buffer, concurrency, dispatch, selection(select)),
        local=local(client_lr, steps, epochs, batch_size),
        aggregate=Cached(None if cache_bits == 32 else cache_bits, spill=spill),
        server_opt=Momentum(server_lr, beta, nu),
    )


def mf_ca2fl(
    client_lr: float = 0.1,
    steps: Steps = None,
    epochs: Epochs = None,
    batch_size: int | None = 10,
    buffer: int = 10,
    concurrency: int | None = 20,
    dispatch: str = "batch",
    server_lr: float = 1.0,
    beta: float = 0.0,
    nu: float = 0.0,
    cache_bits: int = 8,
    quantize_fresh: bool = False,
    select: Select = "uniform",
) -> Algorithm:
    """CA2FL with a cache of a few bits per entry: 8 and 4 cost little accuracy, 2 some more."""
    return Algorithm(
        name="mf_ca2fl",
        pace=Buffered(buffer, concurrency, dispatch, selection(select)),
        local=local(client_lr, steps, epochs, batch_size),
        aggregate=Cached(None if cache_bits == 32 else cache_bits, quantize_fresh=quantize_fresh),
        server_opt=Momentum(server_lr, beta, nu),
    )
