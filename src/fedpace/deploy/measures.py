"""Numbers that are read off a model: its checksum, and metrics weighted over clients."""

from __future__ import annotations

import math
from collections.abc import Mapping

from fedpace.vector import model_sha256

__all__ = ["model_sha256", "weighted"]


def weighted(measured: Mapping[int, tuple[float, Mapping[str, float]]]) -> dict[str, float]:
    """The clients' metrics, each weighted by its samples."""
    names = dict.fromkeys(name for _, metrics in measured.values() for name in metrics)
    means = {}
    for name in names:
        known = [(samples, metrics[name]) for samples, metrics in measured.values() if name in metrics]
        total = math.fsum(samples for samples, _ in known)
        if total > 0:
            means[name] = math.fsum(samples * value for samples, value in known) / total
    return means
