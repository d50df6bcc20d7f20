"""Seconds to encode and decode a long vector, as multiples of copying it. Run: python benchmarks/codecs.py

Every round measures all codecs and the copy once, in turn, so that whatever else the machine does hits all
of them alike; medians are reported.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np

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


def seconds(call: Callable[..., object], *args: object) -> float:
    began = time.perf_counter()
    call(*args)
    return time.perf_counter() - began


def measure(v: np.ndarray, rounds: int) -> tuple[float, dict[str, tuple[float, float, int]]]:
    """Median seconds of a copy; per codec, of encoding and decoding, and the frame's length."""
    rng = np.random.default_rng(0)
    frames = {name: codec.encode(v, rng) for name, codec in CODECS.items()}
    target = np.empty_like(v)
    times: dict[str, list[float]] = {}
    for _ in range(rounds + 1):
        times.setdefault("copy", []).append(seconds(np.copyto, target, v))
        for name, codec in CODECS.items():
            times.setdefault(f"encode {name}", []).append(seconds(codec.encode, v, rng))
            times.setdefault(f"decode {name}", []).append(seconds(codec.decode, frames[name], v.size))
    # the first round compiles
    median = {what: statistics.median(each[1:]) for what, each in times.items()}
    return median["copy"], {
        name: (median[f"encode {name}"], median[f"decode {name}"], len(frames[name])) for name in CODECS
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--entries", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--dtype", default="float32", choices=["float32", "float64"])
    args = parser.parse_args()
    v = np.random.default_rng(1).normal(size=args.entries).astype(args.dtype)
    copy_s, rows = measure(v, args.rounds)
    print(f"{args.entries:,} entries of {args.dtype}: one copy {copy_s * 1e3:.2f} ms")
    print(f"{'codec':20}{'encode':>10}{'decode':>10}{'bytes':>14}{'of dense':>10}")
    for name, (encode_s, decode_s, length) in rows.items():
        share = length / v.nbytes
        print(f"{name:20}{encode_s / copy_s:9.2f}x{decode_s / copy_s:9.2f}x{length:14,}{share:10.4f}")


if __name__ == "__main__":
    main()
