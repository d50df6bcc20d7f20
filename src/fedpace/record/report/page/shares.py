"""Participation: counts per client, and two fairness indices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from fedpace.sim.observer import StepRecord


def participation(history: Iterable[StepRecord]) -> list[int]:
    """Updates used per participating client, in descending order."""
    counts = Counter(client for record in history for client in record.clients)
    return sorted(counts.values(), reverse=True)


def staleness(history: Iterable[StepRecord]) -> Counter[int]:
    """The histogram of staleness."""
    return Counter(stale for record in history for stale in record.staleness)


def jain(counts: Sequence[int]) -> float:
    """Jain's fairness (sum c)^2 / (n sum c^2): 1 when all are equal, 1/n when one client does everything."""
    squares = sum(count * count for count in counts)
    return sum(counts) ** 2 / (len(counts) * squares) if squares else 1.0


def gini(counts: Sequence[int]) -> float:
    """Gini's coefficient: 0 when all are equal, towards 1 when few clients do everything."""
    ordered, total = sorted(counts), sum(counts)
    if not total:
        return 0.0
    ranked = sum((2 * place - len(ordered) - 1) * count for place, count in enumerate(ordered, start=1))
    return ranked / (len(ordered) * total)
