"""A vector as integer multiples of a step: with a dead zone, or with subtractive dither; compiled by numba."""

from __future__ import annotations

import numpy as np

from fedpace.link.codecs.kernels import Array, compiled

UP = 0.35  # of a step: with a dead zone, entries are rounded up from 0.65 of a step
GOLDEN, MIX, STIR = (
    np.uint64(0x9E3779B97F4A7C15),
    np.uint64(0xBF58476D1CE4E5B9),
    np.uint64(0x94D049BB133111EB),
)
A, B, C, WORD, LOST = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(32), np.uint64(11)
UNIT = 2.0**-53


@compiled
def dither(seed: np.uint64, i: int) -> float:
    """u_i, uniform in [-1/2, 1/2), from the seed and i alone: SplitMix64 (Steele, Lea & Flood 2014)."""
    z = ((seed << WORD) + np.uint64(i) + np.uint64(1)) * GOLDEN
    z = (z ^ (z >> A)) * MIX
    z = (z ^ (z >> B)) * STIR
    z ^= z >> C
    return float(np.int64(z >> LOST) * UNIT - 0.5)


@compiled
def with_dither(v: Array, seed: np.uint64, step: float, q: Array) -> None:
    """q = round(v/step + u)."""
    for i in range(v.size):
        q[i] = np.int32(np.floor(v[i] / step + dither(seed, i) + 0.5))


@compiled
def without_dither(q: Array, seed: np.uint64, first: int, step: float, largest: float, out: Array) -> None:
    """(q - u) step, cut off at the largest number, for the entries from `first` on; `out` may be `q`."""
    for i in range(q.size):
        out[i] = min(max((np.float64(q[i]) - dither(seed, first + i)) * step, -largest), largest)


@compiled
def dithered_squares(v: Array, q: Array, seed: np.uint64, step: float, unit: float) -> tuple[float, float]:
    """||v||^2 and ||(q - u) step - v||^2 in units in which neither overflows."""
    whole, error = 0.0, 0.0
    for i in range(v.size):
        whole += (v[i] / unit) ** 2
        error += (((q[i] - dither(seed, i)) * step - v[i]) / unit) ** 2
    return whole, error


@compiled
def with_dead_zone(v: Array, step: float, q: Array) -> tuple[float, float]:
    """q = sign(v) floor(|v|/step + UP); the mean of |v| where |q| = 1, and of |v|/step - |q| where it is larger."""
    ones, sum_ones, others, sum_others = 0, 0.0, 0, 0.0
    for i in range(v.size):
        steps = abs(np.float64(v[i])) / step
        m = np.int32(steps + UP)
        q[i] = -m if v[i] < 0 else m
        if m == 1:
            ones += 1
            sum_ones += steps
        elif m > 1:
            others += 1
            sum_others += steps - m
    return sum_ones / max(1, ones) * step, sum_others / max(1, others)


@compiled
def with_means(q: Array, step: float, first: float, rest: float, largest: float, out: Array) -> None:
    """0, +-first, +-(|q| + rest) step, cut off at the largest number; `out` may be `q`."""
    for i in range(q.size):
        m = abs(int(q[i]))
        size = 0.0 if m == 0 else first if m == 1 else min((m + rest) * step, largest)
        out[i] = -size if q[i] < 0 else size


@compiled
def magnitudes(q: Array) -> tuple[int, bool]:
    """The largest, and whether any is 1."""
    largest, ones = 0, False
    for i in range(q.size):
        m = abs(int(q[i]))
        largest = max(largest, m)
        ones = ones or m == 1
    return largest, ones


@compiled
def mean_square(v: Array, unit: float) -> float:
    """Of v in a unit in which nothing overflows."""
    total = 0.0
    for i in range(v.size):
        total += (np.float64(v[i]) / unit) ** 2
    return total / v.size
