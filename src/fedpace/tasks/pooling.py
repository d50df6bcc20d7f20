"""Running statistics of normalisers from sums over many machines, as flat vectors of float64.

    sums          per normaliser: count, sum per channel, sum of squares per channel
    statistics    per normaliser: mean per channel, unbiased variance per channel

`Channels` says which normalisers a module has, in order, and how many channels each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from fedpace.errors import RemoteError
from fedpace.vector import Vector

Channels = Mapping[str, int]
Weighted = tuple[float, Vector]  # samples of a machine, and its sums
LARGEST = 1e15  # of a mean's size: its square and that of a sum over machines stay finite


def sums_size(channels: Channels) -> int:
    return sum(1 + 2 * width for width in channels.values())


def statistics_size(channels: Channels) -> int:
    return sum(2 * width for width in channels.values())


def check_sums(sums: Vector, channels: Channels) -> None:
    """RemoteError unless there are real samples with these sums; a count of 0 has nothing beside it."""
    for count, first, second in _split(sums, channels):
        sound = count >= 0 and count == round(count) and bool((np.abs(first) <= LARGEST * count).all())
        sound = sound and bool((second >= 0).all() and (second <= LARGEST**2 * count).all())
        if not sound or (first**2 > second * count * (1 + 1e-6)).any():
            raise RemoteError("sums for running statistics must be those of real samples")


def pooled(answers: Sequence[Weighted], channels: Channels) -> Vector:
    """Means and variances over all machines, each weighted by its samples.

    A normaliser that no sample reached keeps mean 0 and variance 1, as it begins.
    """
    each = [(samples, list(_split(sums, channels))) for samples, sums in answers]
    parts: list[Vector] = []
    for k, width in enumerate(channels.values()):
        parts += _pooled_one([(samples, *split[k]) for samples, split in each], width)
    return np.concatenate(parts) if parts else np.empty(0)


def named(statistics: Vector, channels: Channels, dtype: npt.DTypeLike) -> dict[str, Vector]:
    """The statistics by the names that the module gives them."""
    found: dict[str, Vector] = {}
    at = 0
    for name, width in channels.items():
        prefix = f"{name}." if name else ""
        for what in ("running_mean", "running_var"):
            found[prefix + what] = statistics[at : at + width].astype(dtype)
            at += width
    return found


def _split(sums: Vector, channels: Channels) -> Iterator[tuple[float, Vector, Vector]]:
    at = 0
    for width in channels.values():
        middle, end = at + 1 + width, at + 1 + 2 * width
        yield float(sums[at]), sums[at + 1 : middle], sums[middle:end]
        at = end


def _pooled_one(answers: Sequence[tuple[float, float, Vector, Vector]], width: int) -> tuple[Vector, Vector]:
    """Mean and variance of one normaliser."""
    reached = [answer for answer in answers if answer[0] > 0 and answer[1] > 0]
    if not reached:
        return np.zeros(width), np.ones(width)
    weights = np.array([samples for samples, *_ in reached])
    weights /= weights.sum()
    counts = np.array([count for _, count, *_ in reached])
    mean = weights @ np.stack([first / count for _, count, first, _ in reached])
    square = weights @ np.stack([second / count for _, count, _, second in reached])
    unbiased = counts.sum() / max(counts.sum() - 1, 1)
    return mean, np.maximum(square - mean**2, 0.0) * unbiased
