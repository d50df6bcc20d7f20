"""Seconds to encode and decode a long vector, as multiples of copying it.

Every round measures all codecs and the copy once, in turn, so that whatever else the machine does hits all
of them alike; medians are reported.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass

import numpy as np

from fedpace.bench.timing import seconds
from fedpace.compute.memory import keep_freed
from fedpace.link import Codec, Dense, Quantize, ScaledSign, TopK

CODECS: dict[str, Codec] = {
    "dense": Dense(),
    "top-k 1/128": TopK(1 / 128),
    "top-k 1/8": TopK(1 / 8),
    "scaled sign": ScaledSign(),
    "4 bits, nearest": Quantize(4, stochastic=False),
    "4 bits, stochastic": Quantize(4),
    "8 bits, nearest": Quantize(8, stochastic=False),
}


@dataclass(frozen=True, slots=True)
class CodecCost:
    """One codec: encoding and decoding as multiples of one copy, and the frame as a share of the dense one."""

    codec: str
    encode: float
    decode: float
    share: float


def measure(entries: int = 10_000_000, repeats: int = 9) -> list[CodecCost]:
    keep_freed()  # as in every run
    v = np.random.default_rng(1).normal(size=entries).astype(np.float32)
    rng, target = np.random.default_rng(0), np.empty_like(v)
    frames = {name: codec.encode(v, rng) for name, codec in CODECS.items()}
    times: dict[str, list[float]] = {}
    for _ in range(repeats + 1):
        times.setdefault("copy", []).append(seconds(np.copyto, target, v))
        for name, codec in CODECS.items():
            times.setdefault(f"encode {name}", []).append(seconds(codec.encode, v, rng))
            times.setdefault(f"decode {name}", []).append(seconds(codec.decode, frames[name], v.size))
    # the first round compiles
    median = {what: statistics.median(each[1:]) for what, each in times.items()}
    return [
        CodecCost(
            name,
            median[f"encode {name}"] / median["copy"],
            median[f"decode {name}"] / median["copy"],
            len(frames[name]) / v.nbytes,
        )
        for name in CODECS
    ]
