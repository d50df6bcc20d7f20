"""The protocol of partitions, and the arithmetic that all of them share."""

from __future__ import annotations

import heapq
from typing import Protocol

import numpy as np
import numpy.typing as npt

from fedpace.errors import ConfigError

Indices = npt.NDArray[np.int64]
Shares = npt.NDArray[np.float64]

SIZES = ("balanced", "unbalanced")


class Partition(Protocol):
    """A partition of the samples over clients: a frozen value, pure given `rng`."""

    def split(
        self, labels: Indices, groups: Indices | None, clients: int, rng: np.random.Generator
    ) -> list[Indices]:
        """The samples of each client, ascending; every sample once unless the rule says otherwise."""
        ...


def require_enough(samples: int, clients: int, minimum: int = 1) -> None:
    """There are samples to go round."""
    if samples < clients * minimum:
        raise ConfigError(
            f"clients must be <= {samples // minimum} "
            f"({samples} training samples, at least {minimum} per client); got {clients}"
        )


def apportion(shares: Shares, total: int) -> Indices:
    """Whole numbers that sum to `total`, each less than one away from its share."""
    edges = np.rint(np.cumsum(shares) / np.sum(shares) * total).astype(np.int64)
    return np.diff(edges, prepend=0)


def draw_sizes(how: str, total: int, holders: int, rng: np.random.Generator, minimum: int = 1) -> Indices:
    """How many of `total` samples each holder gets: equal parts, or log-normal ones (sigma = 1)."""
    if how == "balanced":
        return apportion(np.ones(holders), total)
    counts = apportion(rng.lognormal(size=holders), total)
    levelled: Indices = level(counts[None, :], minimum)[0]
    return levelled


def level(counts: Indices, minimum: int) -> Indices:
    """Counts (classes, clients) after the richest clients gave single samples to those below `minimum`.

    A donor gives from its largest class. Row sums do not change.
    """
    counts = counts.copy()
    totals = counts.sum(axis=0)
    rich = [(-int(total), client) for client, total in enumerate(totals)]
    heapq.heapify(rich)
    for poor in np.flatnonzero(totals < minimum):
        for _ in range(int(minimum - totals[poor])):
            negative, donor = heapq.heappop(rich)
            kind = int(np.argmax(counts[:, donor]))
            counts[kind, donor] -= 1
            counts[kind, poor] += 1
            heapq.heappush(rich, (negative + 1, donor))
    return counts


def deal(labels: Indices, counts: Indices, rng: np.random.Generator) -> list[Indices]:
    """Give client j counts[c, j] random samples of class c; rows sum to the class totals."""
    hands: list[list[Indices]] = [[] for _ in range(counts.shape[1])]
    for kind, row in enumerate(counts):
        members = rng.permutation(np.flatnonzero(labels == kind))
        for client, part in enumerate(np.split(members, np.cumsum(row)[:-1])):
            hands[client].append(part)
    return [np.sort(np.concatenate(hand)) for hand in hands]
