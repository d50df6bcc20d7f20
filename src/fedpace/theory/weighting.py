"""Whether updates count by the samples behind them: a line where that matters, and the other choice as a value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedpace.aggregate import Mean, Normalised, Weighted
from fedpace.algorithm import Algorithm
from fedpace.errors import require
from fedpace.pace import ByShare, Rounds

UNEVEN = (
    0.5  # of the clients: samples so concentrated that fewer than this share of them would hold them evenly
)


def note(algorithm: Algorithm, samples: Sequence[float]) -> str | None:
    """One line if every update counts the same while the clients' sizes differ much, or None."""
    rule = algorithm.aggregate
    uniform = isinstance(rule, Mean) or (isinstance(rule, Normalised) and rule.weighting == "uniform")
    by_share = isinstance(
        getattr(algorithm.pace, "select", None), ByShare
    )  # large clients are drawn more often
    if not uniform or by_share or effective_share(samples) >= UNEVEN:
        return None
    choice = 'weighting="samples"' if isinstance(algorithm.pace, Rounds) else "the rule aggregate=Weighted()"
    return (
        f"clients hold from {min(samples):g} to {max(samples):g} samples and their updates count the same; "
        f"{choice} counts them by their samples"
    )


def effective_share(samples: Sequence[float]) -> float:
    """(Σ n_i)² / (N Σ n_i²): 1 for equal sizes, 1/N if one client holds everything."""
    n = np.asarray(samples, dtype=float)
    return float(n.sum() ** 2 / (len(n) * (n**2).sum()))


def with_weighting(algorithm: Algorithm, weighting: str) -> Algorithm:
    """The same algorithm with updates that count by their samples, or all the same; one that cannot is unchanged."""
    require(weighting in ("uniform", "samples"), "weighting", weighting, "uniform or samples")
    rule = algorithm.aggregate
    match rule:
        case Mean() | Weighted():
            kind = Weighted if weighting == "samples" else Mean
            return replace(algorithm, aggregate=kind(rule.staleness))
        case Normalised():
            return replace(algorithm, aggregate=replace(rule, weighting=weighting))
    return algorithm
