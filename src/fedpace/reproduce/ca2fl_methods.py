"""The methods of the CA2FL experiments: FedBuff, CA2FL with caches of 32 to 2 bits, FedAsync."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fedpace import algorithms
from fedpace.aggregate import Cached
from fedpace.aggregate.staleness import Polynomial
from fedpace.algorithm import Algorithm
from fedpace.reproduce.one_scale import L2Scale, OneScale

BITS = {"MF-CA2FL 8 bits": 8, "MF-CA2FL 4 bits": 4, "MF-CA2FL 2 bits": 2}
FEDASYNC = ("FedAsync constant", "FedAsync polynomial")
METHODS = ("FedBuff", "CA2FL", *BITS, *FEDASYNC)
# other quantisers for the cache that collapsed in print
ONE, FRESH, L2 = "2 bits, one scale", "2 bits, fresh too", "2 bits, L2 scale"
BUFFER, CONCURRENCY = 10, 20
WORK: dict[str, Any] = {"client_lr": 0.01, "epochs": 2, "batch_size": 50}


def rule(method: str) -> Algorithm:
    """A method of the tables, or a cache of two bits with another quantiser."""
    active: dict[str, Any] = {"concurrency": CONCURRENCY, **WORK}
    buffered = {"buffer": BUFFER, **active}
    match method:
        case "FedBuff":
            made = algorithms.fedbuff(**buffered)
        case "CA2FL":
            made = algorithms.ca2fl(**buffered)
        case "FedAsync constant":
            made = algorithms.fedasync(alpha=0.3, staleness=None, prox_mu=1.0, **active)
        case "FedAsync polynomial":
            made = algorithms.fedasync(alpha=0.5, staleness=Polynomial(0.3), prox_mu=1.0, **active)
        case _ if method == FRESH:
            made = algorithms.mf_ca2fl(cache_bits=2, quantize_fresh=True, **buffered)
        case _ if method in (ONE, L2):
            rows = OneScale(2) if method == ONE else L2Scale(2)
            plain = algorithms.mf_ca2fl(cache_bits=2, **buffered)
            made = replace(plain, aggregate=Cached(2, rows=rows))
        case _:
            made = algorithms.mf_ca2fl(cache_bits=BITS[method], **buffered)
    return _decayed(made)


def asynchronous(method: str, concurrency: int, buffer: int) -> Algorithm:
    """FedBuff or CA2FL with other numbers of active clients and of updates in a step."""
    make = algorithms.ca2fl if method == "CA2FL" else algorithms.fedbuff
    return _decayed(make(buffer=buffer, concurrency=concurrency, **WORK))


def _decayed(made: Algorithm) -> Algorithm:
    return replace(made, local=replace(made.local, weight_decay=1e-4))
