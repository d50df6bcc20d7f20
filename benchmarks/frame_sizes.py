"""How long frames are, and how far from the least that could carry the same: python benchmarks/frame_sizes.py"""

import math

import numpy as np

from fedpace.link import Codec, Dense, Quantize, ScaledSign, TopK
from fedpace.link.wire.frame import HEADER_BYTES

SIZES = (50_890, 159_010, 1_663_370)
CODECS: dict[str, Codec] = {
    "dense": Dense(),
    "sign": ScaledSign(),
    "4 bit": Quantize(4, stochastic=False),
    "top-k 1/8": TopK(1 / 8),
    "top-k 1/128": TopK(1 / 128),
}


def bound_bytes(d: int, ratio: float) -> float:
    """log2 C(d, k) + 32 k bits: positions and float32 values of k entries."""
    k = math.ceil(d * ratio)
    positions = (math.lgamma(d + 1) - math.lgamma(k + 1) - math.lgamma(d - k + 1)) / math.log(2)
    return (positions + 32 * k) / 8


def main() -> None:
    rng = np.random.default_rng(0)
    for d in SIZES:
        v = rng.standard_normal(d).astype(np.float32)
        for name, codec in CODECS.items():
            size = len(codec.encode(v, rng))
            above = ""
            if isinstance(codec, TopK):
                above = f"  {(size - HEADER_BYTES) / bound_bytes(d, codec.ratio) - 1:.2%} above the bound"
            print(f"{d:>10,}  {name:<12}{size:>10,}{above}")


if __name__ == "__main__":
    main()
