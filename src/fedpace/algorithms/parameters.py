"""Parameters that many algorithms share, once: their types, their defaults, and the rules they make."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, TypedDict

from fedpace.aggregate import Mean, Weighted
from fedpace.aggregate.protocol import Aggregator
from fedpace.aggregate.staleness import Weight
from fedpace.errors import ConfigError, require, require_number
from fedpace.link import Dense, EntropyCoded, Octaves, Quantize, RandK, ScaledSign, TopK
from fedpace.link.protocol import Codec
from fedpace.local import SGD
from fedpace.pace import Buffered, Rounds, Selection, selection
from fedpace.server_opt import AMSGrad, Momentum

Steps = int | Sequence[int] | Sequence[Sequence[int]] | None
Epochs = int | tuple[int, int] | None
CodecLike = str | Codec
Staleness = str | Sequence[str | float] | Weight | None
Select = str | Selection | Sequence[Sequence[int]]


class OneStep(TypedDict, total=False):
    """Parameters of every algorithm: the clients' steps, and the server's bound on the length of updates."""

    client_lr: float
    batch_size: int | None
    clip: float | None


class LocalTraining(OneStep, total=False):
    """Several local steps."""

    steps: Steps
    epochs: Epochs


class ClientSampling(TypedDict, total=False):
    clients_per_round: int | None
    select: Select
    weighting: str


class Synchronous(LocalTraining, ClientSampling, total=False):
    """Rounds of sampled clients."""


class BufferedAsync(LocalTraining, total=False):
    """A server step per buffer of updates."""

    buffer: int
    concurrency: int | None
    dispatch: str
    select: Select


class ServerMomentum(TypedDict, total=False):
    server_lr: float
    beta: float
    nu: float


class ServerAdam(TypedDict, total=False):
    server_lr: float
    b1: float
    b2: float
    eps: float


class ServerAMSGrad(ServerAdam, total=False):
    option: int


class SynchronousMomentum(Synchronous, ServerMomentum, total=False):
    """Rounds, and general momentum on the server."""


class SynchronousAdam(Synchronous, ServerAdam, total=False):
    """Rounds, and Adam or a relative on the server."""


class SynchronousAMSGrad(Synchronous, ServerAMSGrad, total=False):
    """Rounds, and AMSGrad on the server."""


class BufferedMomentum(BufferedAsync, ServerMomentum, total=False):
    """A step per buffer, and general momentum on the server."""


DEFAULTS: dict[str, Any] = {
    "client_lr": 0.1,
    "steps": None,
    "epochs": None,
    "batch_size": 10,
    "clip": None,
    "clients_per_round": None,
    "select": "uniform",
    "weighting": "uniform",
    "buffer": 10,
    "concurrency": 20,
    "dispatch": "batch",
    "server_lr": 1.0,
    "beta": 0.0,
    "nu": 0.0,
    "b1": 0.9,
    "b2": 0.99,
    "eps": 1e-3,
    "option": 1,
}


def training(given: LocalTraining, **more: Any) -> dict[str, Any]:
    """The local rule, by default one epoch, and the clip."""
    lr, steps, epochs = given["client_lr"], given["steps"], given["epochs"]
    require_number(lr, "client_lr", above=0, below=math.inf, allowed="> 0")
    if steps is not None and epochs is not None:
        raise ConfigError(
            f"local work must be steps or epochs, not both; got steps={steps} and epochs={epochs}"
        )
    if steps is None and epochs is None:
        epochs = 1
    rule = SGD(lr, steps=steps, epochs=epochs, batch_size=given["batch_size"], **more)  # type: ignore[arg-type]
    return {"local": rule, "clip": given["clip"]}


def rounds(given: Synchronous, **more: Any) -> dict[str, Any]:
    """Rounds of sampled clients, their local rule, and the mean of their updates."""
    pace = Rounds(given["clients_per_round"], selection(given["select"]))
    return {"pace": pace, **training(given, **more), "aggregate": weighted(given["weighting"])}


def buffered(given: BufferedAsync, max_staleness: int | None = None) -> dict[str, Any]:
    """A step per buffer, and the local rule of the clients that fill it."""
    select = selection(given["select"])
    pace = Buffered(given["buffer"], given["concurrency"], given["dispatch"], select, max_staleness)
    return {"pace": pace, **training(given)}


def momentum_of(given: ServerMomentum) -> Momentum:
    return Momentum(given["server_lr"], given["beta"], given["nu"])


def adam_of(given: ServerAdam) -> tuple[float, float, float, float]:
    """The first arguments of Adam and its relatives."""
    return given["server_lr"], given["b1"], given["b2"], given["eps"]


def amsgrad_of(given: ServerAMSGrad) -> AMSGrad:
    return AMSGrad(*adam_of(given), given["option"])


def weighted(weighting: str) -> Aggregator:
    """The mean of the updates, uniform or in proportion to the clients' samples."""
    require(weighting in ("uniform", "samples"), "weighting", weighting, "uniform or samples")
    return Mean() if weighting == "uniform" else Weighted()


def codec_of(codec: CodecLike) -> Codec:
    """A codec from its name, as in `dense`, `topk:1/8`, `octaves:1/4`, `dithered:1.6`, `sign`, `quant:4`, or itself."""
    if isinstance(codec, Codec):
        return codec
    name, _, number = codec.partition(":") if isinstance(codec, str) else ("", "", "")
    try:
        match name, number:
            case "dense" | "fp16" | "bf16" | "fp32", "":
                return Dense(None if name == "dense" else name)
            case "topk", _:
                return TopK(float(Fraction(number)))
            case "octaves" | "ternary", _:
                return Octaves(float(Fraction(number)), 1 if name == "ternary" else 4)
            case "entropy" | "dithered", _:
                return EntropyCoded(float(Fraction(number)), dither=name == "dithered")
            case "randk", _:
                return RandK(float(Fraction(number)))
            case "sign", "":
                return ScaledSign()
            case "quant", _:
                return Quantize(int(number), stochastic=False)
    except (ValueError, ZeroDivisionError) as error:
        if isinstance(error, ConfigError):
            raise
    raise ConfigError(
        f"codec must be dense, fp16, bf16, topk:RATIO, octaves:RATIO, ternary:RATIO, entropy:BITS, "
        f"dithered:BITS, randk:RATIO, sign, quant:BITS, or a codec; got {codec!r}"
    )
