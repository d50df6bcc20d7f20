"""Everything that reads bytes from a peer, as functions of the bytes alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from fedpace.link import (
    EF21,
    Accumulate,
    AdaptiveThreshold,
    Averaged,
    Codec,
    CompressedModel,
    Context,
    Dense,
    Difference,
    Downlink,
    EControl,
    EntropyCoded,
    ErrorFeedback,
    Full,
    Lazy,
    Octaves,
    Plain,
    Quantize,
    RandK,
    ScaledSign,
    TopK,
    Uplink,
    describe,
)
from fedpace.vector import Layout

Reader = Callable[[bytes], object]

SIZES = (1, 13, 300)
LAYOUT = Layout.of({"a": (5,), "b": (2, 4)})
CODECS: tuple[Codec, ...] = (
    Dense(),
    Dense("fp16"),
    Dense("bf16"),
    TopK(0.3),
    TopK(1.0, values="fp16", index="rice"),
    TopK(1.0, index="varint"),
    RandK(0.5),
    ScaledSign(),
    Octaves(0.3),
    EntropyCoded(1.5),
    EntropyCoded(1.5, dither=False),
    Quantize(2),
    Quantize(3, stochastic=False),
    Quantize(4),
    Quantize(16),
)
UPLINKS: tuple[Uplink, ...] = (
    Plain(),
    ErrorFeedback(TopK(0.3)),
    EF21(TopK(0.3)),
    EF21(ScaledSign()),
    EControl(TopK(0.3)),
    Averaged(0.5, ErrorFeedback(TopK(0.3))),
    Accumulate(1.2, ErrorFeedback(TopK(0.3))),
    AdaptiveThreshold(0.3, Accumulate(1.2, ErrorFeedback(TopK(0.3)))),
    Lazy("nla", 0.5),
    Lazy("aa", 0.5, link=ErrorFeedback(TopK(0.3))),
    Lazy("nla", 0.5, link=EF21(TopK(0.3))),
)
DOWNLINKS: tuple[Downlink, ...] = (
    Full(),
    CompressedModel(TopK(0.3)),
    CompressedModel(ScaledSign(), "aa", 0.5),
    Difference(TopK(0.3)),
    Difference(ScaledSign()),
    Difference(Octaves(0.3)),
    Difference(EntropyCoded(1.5)),
    Difference(Dense()),
)


def models(size: int) -> list[np.ndarray]:
    rng = np.random.default_rng(size)
    return [rng.normal(size=size).astype(dtype) for dtype in (np.float32, np.float64)]


def readers() -> dict[str, Reader]:
    """By name; those of links start from what a peer holds after a first message."""
    found: dict[str, Reader] = {}
    for size in SIZES:
        found[f"describe {size}"] = lambda frame, size=size: describe(frame, size)
        for codec in CODECS:
            found[f"{codec} {size}"] = lambda frame, codec=codec, size=size: codec.decode(frame, size)
        for x in models(size):
            for up in UPLINKS:
                found[f"{up} {size} {x.dtype}"] = _uplink(up, x)
            for down in DOWNLINKS:
                found[f"{down} {size} {x.dtype}"] = _downlink(down, x)
    for codec in (TopK(0.3), ScaledSign(), Octaves(0.3), EntropyCoded(1.5), Quantize(3)):
        bound = codec.bind(LAYOUT)
        found[str(bound)] = lambda frame, bound=bound: bound.decode(frame, 13)
    return found


def _uplink(link: Uplink, x: np.ndarray) -> Reader:
    frame, _ = link.send(x, link.init(x.size, x.dtype), Context(0), np.random.default_rng(0))
    _, state = link.receive(frame, link.init(x.size, x.dtype), x.size)
    return lambda frame: link.receive(frame, state, x.size)


def _downlink(link: Downlink, x: np.ndarray) -> Reader:
    rng = np.random.default_rng(0)
    frame, _ = link.send(0, x, 0, link.publish(x, 0, link.init(x, 1), rng), rng)
    _, held = link.receive(frame, None, x.size)
    return lambda frame: link.receive(frame, held, x.size)


def frames() -> Iterator[bytes]:
    """Valid frames of every kind: first messages, second ones, and those that reuse."""
    rng = np.random.default_rng(0)
    for size in SIZES:
        for x in models(size):
            for codec in CODECS:
                yield codec.encode(x, rng)
            for up in UPLINKS:
                first, state = up.send(x, up.init(size, x.dtype), Context(0), rng)
                yield first
                yield up.send(x * 1.01, state, Context(1), rng)[0]
                yield up.send(-x, state, Context(1), rng)[0]
            for down in DOWNLINKS:
                state = down.publish(x, 0, down.init(x, 1), rng)
                first, state = down.send(0, x, 0, state, rng)
                yield first
                yield down.send(0, x + rng.normal(size=size).astype(x.dtype), 1, state, rng)[0]
    for codec in (TopK(0.3), ScaledSign(), Octaves(0.3), EntropyCoded(1.5), Quantize(3)):
        yield codec.bind(LAYOUT).encode(models(13)[0], rng)
