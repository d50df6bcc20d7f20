"""The methods that are combined, each paper's own and all in one, by server rate and the work of a client."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from fedpace import algorithms
from fedpace.aggregate import Cached
from fedpace.algorithm import Algorithm
from fedpace.link import Difference, ErrorFeedback, TopK
from fedpace.theory import multistage

ROUNDS = 300  # of the stages, and the most that any method may take
SHARE = 1 / 8
BETA = 0.7
SLOTS: dict[str, Any] = {"buffer": 10, "concurrency": 20}
COHORT: dict[str, Any] = {"clients_per_round": 10}
OURS = "all together"
PAPERS = ("multistage FedGM", "DeFedAvg-nIID", "CA2FL", "FedBNLACA 1/8")

Work = dict[str, Any]


def work(client_lr: float) -> Work:
    """Of every method: DeFedAvg's, at a rate of the grid."""
    return {"client_lr": client_lr, "steps": 50, "batch_size": 10}


def _stages(rate: float) -> Any:
    return multistage((2 * rate, rate, rate / 2), ROUNDS, BETA, BETA)


def _fedgm(rate: float, own: Work) -> Algorithm:
    return replace(algorithms.fedavg(**COHORT, **own), server_opt=_stages(rate), name="multistage_fedgm")


def _cached(rate: float, own: Work) -> Algorithm:
    return algorithms.ca2fl(server_lr=rate, **SLOTS, **own)


def _staged(rate: float, own: Work) -> Algorithm:
    return replace(_cached(1.0, own), server_opt=_stages(rate), name="ca2fl_fedgm")


def _together(rate: float, own: Work) -> Algorithm:
    """Every rule from another paper."""
    codec = TopK(SHARE)
    links: dict[str, Any] = {"up": ErrorFeedback(codec), "down": Difference(codec)}
    return replace(_staged(rate, own), aggregate=Cached(), name="together", **links)


def _bnlaca(rate: float, own: Work) -> Algorithm:
    codecs: dict[str, Any] = {"codec": "topk:1/8", "down_codec": "topk:1/8"}
    return algorithms.fedbnlaca(server_lr=0.03 * rate, tau=0.8, **codecs, **COHORT, **own)


METHODS: Mapping[str, Callable[[float, Work], Algorithm]] = {
    "FedAvg": lambda rate, own: algorithms.fedavg(server_lr=rate, **COHORT, **own),
    "multistage FedGM": _fedgm,
    "DeFedAvg-nIID": lambda rate, own: algorithms.defedavg_niid(draws=10, server_lr=rate, **own),
    "FedBuff": lambda rate, own: algorithms.fedbuff(server_lr=rate, **SLOTS, **own),
    "CA2FL": _cached,
    "FedBNLACA 1/8": _bnlaca,
    "CA2FL + stages": _staged,
    OURS: _together,
}
