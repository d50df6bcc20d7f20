"""Compressed and lazy communication, up and down.

FedCAMS: Wang, Lin & Chen, ICML 2022. LAG: Chen, Giannakis, Sun & Yin, NeurIPS 2018.
FedNLAA, FedAA, FedNLACA, FedACA, FedBNLACA, FedBACA:
"Bidirectional communication-efficient non-convex adaptive federated learning".

`mode="as_published"` is the realisable reading: a value is reused only if the receiver holds it.
`mode="literal"` is the listing to the letter, for simulation only: it uses values that never crossed the link.
"""

from __future__ import annotations

import warnings
from typing import Unpack

from fedpace.algorithm import Algorithm
from fedpace.algorithms.named import named
from fedpace.algorithms.parameters import (
    CodecLike,
    LocalTraining,
    SynchronousAMSGrad,
    amsgrad_of,
    codec_of,
    rounds,
    training,
    weighted,
)
from fedpace.errors import require
from fedpace.link import CompressedModel, ErrorFeedback, Lazy, Plain
from fedpace.pace import Rounds
from fedpace.server_opt import Momentum

MODES = ("as_published", "literal")
LITERAL_WARNING = (
    'mode="literal" uses values that were not transmitted: its savings exist in simulation only; '
    'mode="as_published" is the nearest protocol that can be run'
)


class LazyUplink(SynchronousAMSGrad, total=False):
    """FedAMS with a lazy uplink."""

    tau: float
    max_staleness: int | None
    mode: str


class CompressedUplink(LazyUplink, total=False):
    """... and compresses it, with error feedback."""

    codec: CodecLike
    memory: str | None


class TwoWayLinks(CompressedUplink, total=False):
    """... and a downlink that compresses the model."""

    down_codec: CodecLike
    tau_down: float


LAZY = {"server_lr": 0.03, "max_staleness": 10, "mode": MODES[0]}
COMPRESSED = {**LAZY, "codec": "topk:1/8", "memory": None}
TWO_WAY = {**COMPRESSED, "down_codec": "topk:1/8", "tau_down": 0.0}


def _reference(mode: str, rule: str) -> str:
    """The value that a fresh one is compared with."""
    require(mode in MODES, "mode", mode, " or ".join(MODES))
    if mode == "literal":
        warnings.warn(LITERAL_WARNING, UserWarning, stacklevel=5)
    return "raw" if mode == "literal" and rule == "nla" else "held"


def _lazy(given: LazyUplink, rule: str, link: Plain | ErrorFeedback) -> Lazy:
    return Lazy(rule, given["tau"], given["max_staleness"], link, _reference(given["mode"], rule))


def _compressed(given: CompressedUplink, rule: str) -> Lazy:
    """A lazy uplink around error feedback."""
    # judged is the listing; with AA it takes every acceleration back, so fresh is the reading to run
    memory = given["memory"] or ("fresh" if rule == "aa" else "judged")
    return _lazy(given, rule, ErrorFeedback(codec_of(given["codec"]), memory))


def _down(given: TwoWayLinks, rule: str) -> CompressedModel:
    """The listing's downlink: it compresses the model itself."""
    first = "zero" if given["mode"] == "literal" else "dense"
    return CompressedModel(codec_of(given["down_codec"]), rule, given["tau_down"], first)


@named(server_lr=0.03)
def fedcams(*, codec: CodecLike = "topk:1/64", **shared: Unpack[SynchronousAMSGrad]) -> Algorithm:
    """FedAMS with a compressed uplink and error feedback."""
    return Algorithm(**rounds(shared), up=ErrorFeedback(codec_of(codec)), server_opt=amsgrad_of(shared))


@named(steps=1, batch_size=None)
def lag(
    *,
    tau: float = 1.0,
    max_staleness: int | None = 10,
    server_lr: float = 1.0,
    weighting: str = "uniform",
    **shared: Unpack[LocalTraining],
) -> Algorithm:
    """All clients every round, but one whose update hardly changed sends nothing and the old one is used."""
    return Algorithm(
        pace=Rounds(),
        **training(shared),
        up=Lazy("lag", tau, max_staleness),
        aggregate=weighted(weighting),
        server_opt=Momentum(server_lr),
    )


@named(**LAZY, tau=0.5)
def fednlaa(**shared: Unpack[LazyUplink]) -> Algorithm:
    """FedAMS whose clients skip an upload that hardly changed (Algorithm 1, NLA)."""
    return Algorithm(**rounds(shared), up=_lazy(shared, "nla", Plain()), server_opt=amsgrad_of(shared))


@named(**LAZY, tau=0.1)
def fedaa(**shared: Unpack[LazyUplink]) -> Algorithm:
    """FedAMS that applies the previous update too when the new one agrees with it (Algorithm 1, AA)."""
    return Algorithm(**rounds(shared), up=_lazy(shared, "aa", Plain()), server_opt=amsgrad_of(shared))


@named(**COMPRESSED, tau=0.5)
def fednlaca(**shared: Unpack[CompressedUplink]) -> Algorithm:
    """FedCAMS whose clients skip an upload that hardly changed (Algorithm 3, NLA)."""
    return Algorithm(**rounds(shared), up=_compressed(shared, "nla"), server_opt=amsgrad_of(shared))


@named(**COMPRESSED, tau=0.1)
def fedaca(**shared: Unpack[CompressedUplink]) -> Algorithm:
    """FedCAMS that applies the previous update too when the new one agrees with it (Algorithm 3, AA)."""
    return Algorithm(**rounds(shared), up=_compressed(shared, "aa"), server_opt=amsgrad_of(shared))


@named(**TWO_WAY, tau=0.5)
def fedbnlaca(**shared: Unpack[TwoWayLinks]) -> Algorithm:
    """FedNLACA whose downlink compresses the model with an error memory per client (Algorithm 2, NLA)."""
    up, down = _compressed(shared, "nla"), _down(shared, "nla")
    return Algorithm(**rounds(shared), up=up, down=down, server_opt=amsgrad_of(shared))


@named(**TWO_WAY, tau=0.1)
def fedbaca(**shared: Unpack[TwoWayLinks]) -> Algorithm:
    """FedACA whose downlink compresses the model with an error memory per client (Algorithm 2, AA)."""
    up, down = _compressed(shared, "aa"), _down(shared, "aa")
    return Algorithm(**rounds(shared), up=up, down=down, server_opt=amsgrad_of(shared))
