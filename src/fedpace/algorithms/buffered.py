"""Buffered and immediate asynchrony.

FedBuff: Nguyen et al., AISTATS 2022. FedAsync: Xie, Koyejo & Gupta 2019. CA2FL and MF-CA2FL: Wang et al.,
FL-ICML workshop 2023 (whose numbers are cited here; later ICLR 2024).
"""

from __future__ import annotations

from typing import Literal, Unpack

from fedpace.aggregate import Cached, Mean, Mixing, staleness_weight
from fedpace.aggregate.rows import L2Scale
from fedpace.algorithm import Algorithm
from fedpace.algorithms.named import named
from fedpace.algorithms.parameters import (
    BufferedMomentum,
    LocalTraining,
    Select,
    Staleness,
    buffered,
    momentum_of,
    training,
)
from fedpace.errors import require
from fedpace.pace import Immediate, selection

CacheScale = Literal["block", "l2"]


@named()
def fedasync(
    *,
    concurrency: int | None = 20,
    alpha: float = 0.6,
    staleness: Staleness = "poly",
    prox_mu: float = 0.0,
    max_staleness: int | None = None,
    select: Select = "uniform",
    **shared: Unpack[LocalTraining],
) -> Algorithm:
    """Mix every arriving local model into the global one, discounted by staleness; `prox_mu` is the paper's rho."""
    return Algorithm(
        pace=Immediate(concurrency, selection(select), max_staleness),
        **training(shared, prox_mu=prox_mu),
        aggregate=Mixing(alpha, staleness_weight(staleness)),
    )


@named()
def fedbuff(
    *, staleness: Staleness = None, max_staleness: int | None = None, **shared: Unpack[BufferedMomentum]
) -> Algorithm:
    """A server step whenever `buffer` updates have arrived from `concurrency` active clients.

    >>> import fedpace
    >>> task = fedpace.tasks.quadratics([1.0, 2.0, 6.0])
    >>> fedbuff = fedpace.algorithms.fedbuff(buffer=1, concurrency=3, steps=5)
    >>> run = fedpace.simulate(fedbuff, task, fedpace.sim.Population(solve_s=[1.0, 1.0, 4.0]), rounds=12)
    >>> sorted(client for record in run.history for client in record.clients)
    [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2]
    """
    rules = buffered(shared, max_staleness)
    return Algorithm(**rules, aggregate=Mean(staleness_weight(staleness)), server_opt=momentum_of(shared))


@named()
def ca2fl(*, cache_bits: int = 32, spill: str | None = None, **shared: Unpack[BufferedMomentum]) -> Algorithm:
    """FedBuff calibrated with the last update of every client, which removes the bias of fast clients.

    >>> from fedpace import algorithms
    >>> algorithms.ca2fl(buffer=5, cache_bits=4).aggregate.bits
    4
    """
    cache = Cached(None if cache_bits == 32 else cache_bits, spill=spill)
    return Algorithm(**buffered(shared), aggregate=cache, server_opt=momentum_of(shared))


@named()
def mf_ca2fl(
    *,
    cache_bits: int = 8,
    cache_scale: CacheScale = "block",
    quantize_fresh: bool = False,
    **shared: Unpack[BufferedMomentum],
) -> Algorithm:
    """CA2FL with a quantised cache: 8 and 4 bits per entry cost little accuracy, 2 bits somewhat more.

    The paper does not give its quantiser. `cache_scale="l2"` is QSGD's, which it cites: with it 2 bits collapsed on a
    small network (`docs/results/ca2fl-accuracy`).
    """
    allowed = ("block", "l2") if cache_bits != 32 else ("block",)
    require(
        cache_scale in allowed, "cache_scale", cache_scale, f"{' or '.join(allowed)} with {cache_bits} bits"
    )
    rows = L2Scale(cache_bits) if cache_scale == "l2" else None
    cache = Cached(None if cache_bits == 32 else cache_bits, quantize_fresh=quantize_fresh, rows=rows)
    return Algorithm(**buffered(shared), aggregate=cache, server_opt=momentum_of(shared))
