"""Label skew by Dirichlet draws, class by class or client by client."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedpace.errors import require, require_count, require_number
from fedpace.tasks.partition.html import ShownByExample
from fedpace.tasks.partition.rule import (
    SIZES,
    Indices,
    Shares,
    apportion,
    deal,
    draw_sizes,
    level,
    require_enough,
)


@dataclass(frozen=True, slots=True)
class Dirichlet(ShownByExample):
    """Each class is shared out among the clients with proportions ~ Dirichlet(alpha, ..., alpha).

    The split of Yurochkin et al., arXiv:1905.12022, that CA2FL and FedGM use; client sizes differ as drawn.
    Departures: the draw is taken once and clients below `minimum` are given single samples of the largest
    clients, where public code redraws until all are large enough (which with many clients never ends).

    >>> import numpy as np
    >>> from fedpace.tasks.partition import Dirichlet
    >>> labels = np.arange(1000) % 10
    >>> parts = Dirichlet(alpha=0.3).split(labels, None, 4, np.random.default_rng(0))
    >>> sum(map(len, parts)), len(set(np.concatenate(parts)))
    (1000, 1000)
    """

    alpha: float
    minimum: int = 1

    def __post_init__(self) -> None:
        require_number(self.alpha, "Dirichlet.alpha", above=0, allowed="> 0")
        require_count(self.minimum, "Dirichlet.minimum")

    def proportions(self, classes: int, clients: int, rng: np.random.Generator) -> Shares:
        """Row c: the shares of class c, over clients."""
        return rng.dirichlet(np.full(clients, self.alpha), size=classes)

    def split(
        self, labels: Indices, groups: Indices | None, clients: int, rng: np.random.Generator
    ) -> list[Indices]:
        require_enough(len(labels), clients, self.minimum)
        totals = np.bincount(labels)
        shares = self.proportions(len(totals), clients, rng)
        counts = np.stack([apportion(row, int(n)) for row, n in zip(shares, totals, strict=True)])
        return deal(labels, level(counts, self.minimum), rng)


@dataclass(frozen=True, slots=True)
class DirichletByClient(ShownByExample):
    """Each client's class mixture ~ Dirichlet(alpha C prior), with C classes; sizes are chosen apart.

    The split of Hsu et al., arXiv:1909.06335 (there alpha C is called alpha). Samples are drawn without
    replacement; a class that has run out is left out of the mixtures of the clients that come later, in
    random order, so every sample is used once.
    """

    alpha: float
    sizes: str = "balanced"

    def __post_init__(self) -> None:
        require_number(self.alpha, "DirichletByClient.alpha", above=0, allowed="> 0")
        require(self.sizes in SIZES, "DirichletByClient.sizes", self.sizes, "balanced or unbalanced")

    def proportions(self, prior: Shares, clients: int, rng: np.random.Generator) -> Shares:
        """Row j: the class mixture of client j."""
        concentration = np.maximum(self.alpha * len(prior) * prior, np.finfo(float).tiny)
        return rng.dirichlet(concentration, size=clients)

    def split(
        self, labels: Indices, groups: Indices | None, clients: int, rng: np.random.Generator
    ) -> list[Indices]:
        require_enough(len(labels), clients)
        left = np.bincount(labels)
        sizes = draw_sizes(self.sizes, len(labels), clients, rng)
        mixtures = self.proportions(left / left.sum(), clients, rng)
        counts = np.zeros((len(left), clients), np.int64)
        for client in rng.permutation(clients):
            counts[:, client] = _fill(int(sizes[client]), mixtures[client], left, rng)
            left = left - counts[:, client]
        return deal(labels, counts, rng)


def _fill(size: int, mixture: Shares, left: Indices, rng: np.random.Generator) -> Indices:
    """`size` samples by class, following `mixture` as far as what is left allows."""
    taken = np.zeros_like(left)
    while (missing := size - int(taken.sum())) > 0:
        open_mixture = np.where(left > taken, mixture, 0.0)
        if open_mixture.sum() < 1e-12:
            open_mixture = (left - taken).astype(float)
        drawn = rng.multinomial(missing, open_mixture / open_mixture.sum())
        taken = np.minimum(taken + drawn, left)
    return taken
