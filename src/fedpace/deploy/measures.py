"""Numbers that are read off a model: its checksum, and metrics weighted over clients."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from fedpace.client_spread import ClientSpread
from fedpace.vector import model_sha256

__all__ = ["model_sha256", "spread", "weighted"]


def spread(measured: Mapping[int, tuple[float, Mapping[str, float]]], clients: int) -> ClientSpread:
    """Accuracy, else loss, client by client; NaN for those that did not measure."""
    known = all("accuracy" in metrics for _, metrics in measured.values())
    name, values = "accuracy" if known else "loss", np.full(clients, np.nan)
    for client, (_, metrics) in measured.items():
        values[client] = metrics.get(name, np.nan)
    return ClientSpread(name, values, higher_is_better=known)


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
