"""The methods of the CA2FL experiments: FedBuff, CA2FL with caches of 32 to 2 bits, FedAsync."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from fedpace import algorithms
from fedpace.aggregate import Cached
from fedpace.aggregate.staleness import Polynomial
from fedpace.algorithm import Algorithm
from fedpace.reproduce.ca2fl.quantisers import OneScale

BITS = {"MF-CA2FL 8 bits": 8, "MF-CA2FL 4 bits": 4, "MF-CA2FL 2 bits": 2}
FEDASYNC = ("FedAsync constant", "FedAsync polynomial")
METHODS = ("FedBuff", "CA2FL", *BITS, *FEDASYNC)
# other quantisers for the cache that collapsed in print
ONE, FRESH, L2 = "2 bits, one scale", "2 bits, fresh too", "2 bits, L2 scale"
# QSGD's quantiser, which the paper cites
L2_BITS = {"8 bits, L2 scale": 8, "4 bits, L2 scale": 4, L2: 2}
BUFFER, CONCURRENCY = 10, 20


class RatePair(NamedTuple):
    server: float  # of FedAsync: alpha, the weight of an arriving model
    local: float


TABLE_6 = RatePair(1.0, 0.01)  # CNN and ResNet-18 alike
TABLE_7 = {"FedAsync constant": RatePair(0.3, 0.01), "FedAsync polynomial": RatePair(0.5, 0.01)}


def printed_rates(method: str) -> RatePair:
    return TABLE_7.get(method, TABLE_6)


def rule(
    method: str, rates: RatePair | None = None, concurrency: int = CONCURRENCY, buffer: int = BUFFER
) -> Algorithm:
    """A method of the tables, or a cache of two bits with another quantiser; at the printed rates unless given."""
    server, local = rates or printed_rates(method)
    active: dict[str, Any] = {
        "concurrency": concurrency,
        "client_lr": local,
        "epochs": 2,
        "batch_size": 50,
    }
    buffered = {"buffer": buffer, "server_lr": server, **active}
    match method:
        case "FedBuff":
            made = algorithms.fedbuff(**buffered)
        case "CA2FL":
            made = algorithms.ca2fl(**buffered)
        case "FedAsync constant":
            made = algorithms.fedasync(alpha=server, staleness=None, prox_mu=1.0, **active)
        case "FedAsync polynomial":
            made = algorithms.fedasync(alpha=server, staleness=Polynomial(0.3), prox_mu=1.0, **active)
        case _ if method == FRESH:
            made = algorithms.mf_ca2fl(cache_bits=2, quantize_fresh=True, **buffered)
        case _ if method == ONE:
            plain = algorithms.mf_ca2fl(cache_bits=2, **buffered)
            made = replace(plain, aggregate=Cached(2, rows=OneScale(2)))
        case _ if method in L2_BITS:
            made = algorithms.mf_ca2fl(cache_bits=L2_BITS[method], cache_scale="l2", **buffered)
        case _:
            made = algorithms.mf_ca2fl(cache_bits=BITS[method], **buffered)
    return replace(made, local=replace(made.local, weight_decay=1e-4))
