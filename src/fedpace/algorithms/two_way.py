"""Our own: model differences down, dithered or remembered updates up, any server optimizer, any pacing."""

from __future__ import annotations

from typing import Unpack

from fedpace.algorithm import Algorithm
from fedpace.algorithms.named import named
from fedpace.algorithms.parameters import CodecLike, Select, SynchronousAMSGrad, amsgrad_of, codec_of, rounds
from fedpace.errors import ConfigError, require
from fedpace.link import (
    EF21,
    Accumulate,
    AdaptiveThreshold,
    Averaged,
    Difference,
    EControl,
    ErrorFeedback,
    Lazy,
    Plain,
)
from fedpace.link.protocol import Codec, Uplink, is_unbiased
from fedpace.pace import Arrivals, Buffered, Pace, Polled, selection
from fedpace.server_opt.protocol import ServerOpt

START = 1.2  # of a threshold that adapts, unless tau is given


@named(server_lr=0.005, b1=0.5, eps=1e-7)
def two_way(
    *,
    pace: str | Pace = "rounds",
    buffer: int = 10,
    concurrency: int | None = 20,
    draws: int = 10,
    codec: CodecLike = "dithered:1.59",
    down_codec: CodecLike = "dithered:1.59",
    memory: str = "auto",
    newest: float = 1.0,
    tau: float = 0.0,
    skip: float | None = None,
    tau_down: float = 0.0,
    max_staleness: int | None = 10,
    reference: str = "auto",
    first: str = "seed",
    per_tensor: bool = True,
    server_opt: ServerOpt | None = None,
    **shared: Unpack[SynchronousAMSGrad],
) -> Algorithm:
    """Bidirectional compression: dithered model differences on the downlink, dithered updates on the uplink.

    Both ways at 1.59 bits per entry, a twentieth of 32. Down, each client is sent the coded difference between the
    server's model and its own, so the residual is the error memory and no error can build up; dithered, so that
    clients start from models with independent errors, which average out. A new client makes the initial model from
    the seed; `first="dense"` sends it instead, for models that no seed can make. Up, `memory="none"` loses the error,
    which averages out over the clients of a step where the codec is unbiased; the uplink then has no state. `"ef"` is
    error feedback, `"ef21"` the difference to an estimate that both ends hold, `"econtrol"` that with a tenth of the
    error added. `"auto"` is none for unbiased codecs, error feedback for others and for lazy uplinks. With `newest` < 1
    a client sends a running mean of its updates, in which the newest has this weight: momentum before compression,
    which goes with b1 = 0. With `tau` > 0 a client skips uploads: under error feedback while it owes at most tau times
    its newest update, which it then sends with the next; under EF21 when its update is within tau of the estimate.
    With `skip`, under error feedback, each client adapts its threshold, from tau or 1.2 on, so that it skips this share
    of its uploads.
    `pace` is rounds, buffered, polled, arrivals or a rule.

    >>> from fedpace import algorithms
    >>> algorithms.two_way(codec="topk:1/8", down_codec="topk:1/8").up
    ErrorFeedback(codec=TopK(ratio=0.125, values=None, index='auto', groups=()), memory='judged')
    """
    rules = rounds(shared)
    if pace != "rounds":
        rules["pace"] = _pace(pace, buffer, concurrency, draws, shared["select"])
    return Algorithm(
        **rules,
        up=_up(codec, memory, newest, tau, skip or 0.0, max_staleness),
        down=Difference(codec_of(down_codec), tau_down, reference, first=first),
        per_tensor=per_tensor,
        server_opt=amsgrad_of(shared) if server_opt is None else server_opt,
    )


def _up(
    codec: CodecLike, memory: str, newest: float, tau: float, skip: float, max_staleness: int | None
) -> Uplink:
    link = _remembering(codec_of(codec), memory, lazy=tau != 0 or skip != 0)
    if tau == 0 and skip == 0:
        return link if newest == 1 else Averaged(newest, link)
    require(newest == 1, "newest", newest, "1 with tau > 0 or skip > 0")
    match link:
        case ErrorFeedback() if skip:
            return AdaptiveThreshold(skip, Accumulate(tau or START, link, max_staleness))
        case ErrorFeedback():
            return Accumulate(tau, link, max_staleness)
        case EF21() if not skip:
            return Lazy("nla", tau, max_staleness, link)
    what, got = ("skip", skip) if skip else ("tau", tau)
    raise ConfigError(f'{what} must be zero with memory="{memory}"; got {got!r}')


def _remembering(codec: Codec, memory: str, *, lazy: bool) -> Plain | ErrorFeedback | EF21 | EControl:
    if memory == "auto":
        memory = "none" if is_unbiased(codec) and not lazy else "ef"
    match memory:
        case "ef":
            return ErrorFeedback(codec)
        case "ef21":
            return EF21(codec)
        case "econtrol":
            return EControl(codec)
        case "none":
            return Plain(codec)
    raise ConfigError(f"memory must be auto, none, ef, ef21 or econtrol; got {memory!r}")


def _pace(pace: str | Pace, buffer: int, concurrency: int | None, draws: int, select: Select) -> Pace:
    if not isinstance(pace, str):
        return pace
    allowed = "one of rounds, buffered, polled, arrivals, or a pacing rule"
    require(pace in ("buffered", "polled", "arrivals"), "pace", pace, allowed)
    if pace == "buffered":
        return Buffered(buffer, concurrency, "batch", selection(select))
    return Polled(draws) if pace == "polled" else Arrivals(buffer)
