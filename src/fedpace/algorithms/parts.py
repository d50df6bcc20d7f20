"""What the named algorithms have in common: parameters turned into rules."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from fedpace.aggregate import Mean, Weighted
from fedpace.aggregate.protocol import Aggregator
from fedpace.errors import ConfigError, require, require_number
from fedpace.link import Dense, Quantize, RandK, ScaledSign, TopK
from fedpace.link.protocol import Codec
from fedpace.local import SGD
from fedpace.pace import Rounds, Selection, selection

Steps = int | Sequence[int] | Sequence[Sequence[int]] | None
Epochs = int | tuple[int, int] | None
CodecLike = str | Codec
Select = str | Selection | Sequence[Sequence[int]]


def local(client_lr: float, steps: Steps, epochs: Epochs, batch_size: int | None, **more: Any) -> SGD:
    """The local rule; one pass over the data where nothing is said."""
    require_number(client_lr, "client_lr", above=0, below=math.inf, allowed="> 0")
    require(steps is None or epochs is None, "steps and epochs", (steps, epochs), "one of the two")
    if steps is None and epochs is None:
        epochs = 1
    return SGD(client_lr, steps=steps, epochs=epochs, batch_size=batch_size, **more)  # type: ignore[arg-type]


def weighted(weighting: str) -> Aggregator:
    """Every client the same, or in proportion to its samples."""
    require(weighting in ("uniform", "samples"), "weighting", weighting, "uniform or samples")
    return Mean() if weighting == "uniform" else Weighted()


def synchronous(clients_per_round: int | None, select: Select) -> Rounds:
    return Rounds(clients_per_round, selection(select))


def codec_of(codec: CodecLike) -> Codec:
    """A codec from `dense`, `fp16`, `topk:1/8`, `randk:0.01`, `sign`, `quant:4`, or itself."""
    if isinstance(codec, Codec):
        return codec
    name, _, number = codec.partition(":") if isinstance(codec, str) else ("", "", "")
    try:
        match name, number:
            case "dense" | "fp16" | "bf16" | "fp32", "":
                return Dense(None if name == "dense" else name)
            case "topk", _:
                return TopK(float(Fraction(number)))
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
        f"codec must be dense, fp16, bf16, topk:RATIO, randk:RATIO, sign, quant:BITS, or a codec; got {codec!r}"
    )
