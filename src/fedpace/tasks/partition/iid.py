"""Samples dealt out at random: all clients have the same distribution."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedpace.errors import require, require_count, require_number
from fedpace.tasks.partition.html import ShownByExample
from fedpace.tasks.partition.rule import SIZES, Indices, apportion, draw_sizes, level, require_enough


@dataclass(frozen=True, slots=True)
class IID(ShownByExample):
    """A random permutation cut into parts of equal (`balanced`) or log-normal (`unbalanced`) sizes."""

    sizes: str = "balanced"

    def __post_init__(self) -> None:
        require(self.sizes in SIZES, "IID.sizes", self.sizes, "balanced or unbalanced")

    def split(
        self, labels: Indices, groups: Indices | None, clients: int, rng: np.random.Generator
    ) -> list[Indices]:
        require_enough(len(labels), clients)
        return cut(draw_sizes(self.sizes, len(labels), clients, rng), rng)


@dataclass(frozen=True, slots=True)
class Quantity(ShownByExample):
    """Quantity skew: shares of the data ~ Dirichlet(alpha), classes at random.

    The smaller alpha, the more unequal the sizes. Clients below `minimum` are given samples of the largest.
    """

    alpha: float
    minimum: int = 1

    def __post_init__(self) -> None:
        require_number(self.alpha, "Quantity.alpha", above=0, allowed="> 0")
        require_count(self.minimum, "Quantity.minimum")

    def split(
        self, labels: Indices, groups: Indices | None, clients: int, rng: np.random.Generator
    ) -> list[Indices]:
        require_enough(len(labels), clients, self.minimum)
        drawn = apportion(rng.dirichlet(np.full(clients, self.alpha)), len(labels))
        return cut(level(drawn[None, :], self.minimum)[0], rng)


def cut(sizes: Indices, rng: np.random.Generator) -> list[Indices]:
    """A random permutation in parts of these sizes."""
    order = rng.permutation(int(sizes.sum()))
    return [np.sort(part) for part in np.split(order, np.cumsum(sizes)[:-1])]
