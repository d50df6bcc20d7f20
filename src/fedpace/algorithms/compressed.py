"""Compressed and lazy communication, up and down.

FedCAMS: Wang, Lin & Chen, ICML 2022. LAG: Chen, Giannakis, Sun & Yin, NeurIPS 2018.
FedNLAA, FedAA, FedNLACA, FedACA, FedBNLACA, FedBACA:
"Bidirectional communication-efficient non-convex adaptive federated learning".

The threshold is `tau`, or with `over_n` the printed C / (alpha n), where `tau` is C (D for AA) and n the updates of a
step. `mode` is the reading of the listings: see `readings`.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from fedpace.algorithms.readings import REALISABLE, reading
from fedpace.errors import require, require_number
from fedpace.link import CompressedModel, Dense, ErrorFeedback, Lazy, LazyModel, Plain
from fedpace.pace import Rounds
from fedpace.server_opt import Momentum

UNCHANGED = 1e-12  # relative: an update of full batches from the same model


class LazyUplink(SynchronousAMSGrad, total=False):
    """FedAMS with a lazy uplink."""

    tau: float
    over_n: bool
    alpha: float
    reference: str | None
    max_staleness: int | None
    mode: str


class CompressedUplink(LazyUplink, total=False):
    """... and compresses it, with error feedback."""

    codec: CodecLike
    memory: str | None  # None, the former default, is the listing's


class TwoWayLinks(CompressedUplink, total=False):
    """... and a downlink that compresses the model."""

    down_codec: CodecLike
    tau_down: float


LAZY = {
    "server_lr": 0.03,
    "over_n": False,
    "alpha": 1.0,
    "reference": None,
    "max_staleness": 10,
    "mode": REALISABLE,
}
COMPRESSED = {**LAZY, "codec": "topk:1/8", "memory": "judged"}
TWO_WAY = {**COMPRESSED, "down_codec": "topk:1/8", "tau_down": 0.0}


def _lazy(given: LazyUplink, rule: str, link: Plain | ErrorFeedback) -> Lazy:
    read = reading(given["mode"], rule, given["reference"])
    staleness = given["max_staleness"] if read.bounded else None
    return Lazy(rule, _threshold(given, "tau"), staleness, link, read.reference, given["over_n"])


def _threshold(given: LazyUplink, name: str) -> float:
    """tau, or C / alpha, which the link divides by n."""
    tau, alpha = given[name], given["alpha"]  # type: ignore[literal-required]
    require_number(alpha, "alpha", above=0, allowed="> 0")
    require(given["over_n"] or alpha == 1, "alpha", alpha, "1 without over_n: it is the one of C / (alpha n)")
    require_number(tau, name, low=0, allowed=">= 0")
    return float(tau / alpha)


def _compressed(given: CompressedUplink, rule: str) -> Lazy:
    """A lazy uplink around error feedback."""
    return _lazy(given, rule, ErrorFeedback(codec_of(given["codec"]), given["memory"] or "judged"))


def _down(given: TwoWayLinks, rule: str) -> CompressedModel:
    """The listing's downlink: it compresses the model itself."""
    read = reading(given["mode"], rule, given["reference"], warn=False)
    tau = _threshold(given, "tau_down")
    return CompressedModel(
        codec_of(given["down_codec"]),
        rule,
        tau,
        read.first,
        "raw" if read.reference == "raw" else "held",
        given["over_n"],
        given["clients_per_round"] if given["over_n"] else None,
        given["max_staleness"] if read.bounded and tau else None,
    )


@named(server_lr=0.03)
def fedcams(*, codec: CodecLike = "topk:1/64", **shared: Unpack[SynchronousAMSGrad]) -> Algorithm:
    """FedAMS with a compressed uplink and error feedback."""
    return Algorithm(**rounds(shared), up=ErrorFeedback(codec_of(codec)), server_opt=amsgrad_of(shared))


@named(steps=1, batch_size=None)
def lag(
    *,
    rule: str = "wk",
    lipschitz: float | Sequence[float] = 1.0,
    tau: float = 1.0,
    max_staleness: int | None = 10,
    server_lr: float = 1.0,
    weighting: str = "uniform",
    **shared: Unpack[LocalTraining],
) -> Algorithm:
    """Lazy aggregation over all clients: an update that changed little is not sent, the previous one is reused.

    `rule="wk"` (LAG-WK): each client judges its update. `rule="ps"` (LAG-PS): the server judges how far its model has
    moved since the one it last sent to the client; `lipschitz` bounds how much faster an update moves than the
    model: client_lr K L_i, one number or one per client.
    """
    require(rule in ("wk", "ps"), "rule", rule, "wk (the client judges) or ps (the server does)")
    by_server = rule == "ps"
    full = not by_server or shared["batch_size"] is None
    require(full, "batch_size", shared["batch_size"], 'None with rule="ps": the same model, the same update')
    return Algorithm(
        pace=Rounds(),
        **training(shared),
        up=Lazy("nla", UNCHANGED, None) if by_server else Lazy("lag", tau, max_staleness),
        down=LazyModel(tau, lipschitz, max_staleness) if by_server else Dense(),
        aggregate=weighted(weighting),
        server_opt=Momentum(server_lr),
    )


@named(**LAZY, tau=0.5)
def fednlaa(**shared: Unpack[LazyUplink]) -> Algorithm:
    """FedAMS whose clients skip uploads that changed little (Algorithm 1, NLA)."""
    return Algorithm(**rounds(shared), up=_lazy(shared, "nla", Plain()), server_opt=amsgrad_of(shared))


@named(**LAZY, tau=0.1)
def fedaa(**shared: Unpack[LazyUplink]) -> Algorithm:
    """FedAMS that applies the previous update too when the new one agrees with it (Algorithm 1, AA)."""
    return Algorithm(**rounds(shared), up=_lazy(shared, "aa", Plain()), server_opt=amsgrad_of(shared))


@named(**COMPRESSED, tau=0.5)
def fednlaca(**shared: Unpack[CompressedUplink]) -> Algorithm:
    """FedCAMS whose clients skip uploads that changed little (Algorithm 3, NLA)."""
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
