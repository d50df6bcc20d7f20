"""The methods that are combined, each paper's own and all in one, by server rate and the work of a client."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from fedpace import algorithms
from fedpace.aggregate import Cached
from fedpace.algorithm import Algorithm
from fedpace.link import Difference, ErrorFeedback, TopK
from fedpace.theory import multistage

ROUNDS = 300  # the most that any method may take
SHARE = 1 / 8
BETA = 0.7
SLOTS: dict[str, Any] = {"buffer": 10, "concurrency": 20}
COHORT: dict[str, Any] = {"clients_per_round": 10}
OURS = "all together"
DEFEDAVG = "DeFedAvg-nIID"
PAPERS = ("multistage FedGM", DEFEDAVG, "CA2FL", "FedBNLACA 1/8")

Work = dict[str, Any]


@dataclass(frozen=True, slots=True)
class GridRates:
    """A setting of the grid: the server rate, the clients', and the steps of all stages together."""

    server: float
    local: float
    stages: int = ROUNDS

    @property
    def work(self) -> Work:
        """Of every method: DeFedAvg's, at this local rate."""
        return {"client_lr": self.local, "steps": 50, "batch_size": 10}

    @property
    def in_stages(self) -> Any:
        """Twice the server rate, then the rate, then half of it."""
        return multistage((2 * self.server, self.server, self.server / 2), self.stages, BETA, BETA)


def _fedgm(rates: GridRates) -> Algorithm:
    plain = algorithms.fedavg(**COHORT, **rates.work)
    return replace(plain, server_opt=rates.in_stages, name="multistage_fedgm")


def _cached(rates: GridRates) -> Algorithm:
    return algorithms.ca2fl(server_lr=rates.server, **SLOTS, **rates.work)


def _staged(rates: GridRates) -> Algorithm:
    return replace(_cached(rates), server_opt=rates.in_stages, name="ca2fl_fedgm")


def _together(rates: GridRates) -> Algorithm:
    """Every rule from another paper."""
    codec = TopK(SHARE)
    links: dict[str, Any] = {"up": ErrorFeedback(codec), "down": Difference(codec)}
    return replace(_staged(rates), aggregate=Cached(), name="together", **links)


def _bnlaca(rates: GridRates) -> Algorithm:
    codecs: dict[str, Any] = {"codec": "topk:1/8", "down_codec": "topk:1/8"}
    return algorithms.fedbnlaca(server_lr=0.03 * rates.server, tau=0.8, **codecs, **COHORT, **rates.work)


METHODS: Mapping[str, Callable[[GridRates], Algorithm]] = {
    "FedAvg": lambda rates: algorithms.fedavg(server_lr=rates.server, **COHORT, **rates.work),
    "multistage FedGM": _fedgm,
    DEFEDAVG: lambda rates: algorithms.defedavg_niid(draws=10, server_lr=rates.server, **rates.work),
    "FedBuff": lambda rates: algorithms.fedbuff(server_lr=rates.server, **SLOTS, **rates.work),
    "CA2FL": _cached,
    "FedBNLACA 1/8": _bnlaca,
    "CA2FL + stages": _staged,
    OURS: _together,
}
STAGED = ("multistage FedGM", "CA2FL + stages", OURS)
