"""The clients a server may address at one moment."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass

import numpy as np

from fedpace.vector import Vector

Draw = Callable[[], np.random.Generator]


@dataclass(frozen=True, slots=True)
class Available:
    """All clients but the absent. Drawing costs time in proportion to the draw, not to their number."""

    clients: int
    absent: Set[int] = frozenset()
    shares: Vector | None = None  # p_i = n_i / sum n_j, where clients are drawn by them

    def __len__(self) -> int:
        return self.clients - len(self.absent)

    def members(self, busy: Set[int] = frozenset()) -> list[int]:
        """The available clients that are not busy, in order."""
        return [c for c in range(self.clients) if c not in busy and c not in self.absent]

    def draw(self, k: int, rng: np.random.Generator, busy: Set[int] = frozenset()) -> list[int]:
        """`k` distinct clients, uniformly; fewer if fewer are available."""
        free = len(self) - len(busy)  # at least
        if free >= 2 * k and 8 * free >= self.clients:  # a try succeeds with probability 1/16 or more
            return self._draw_by_rejection(k, rng, busy)
        pool = self.members(busy)
        return sorted(rng.choice(pool, min(k, len(pool)), replace=False).tolist()) if pool else []

    def draw_repeatedly(self, k: int, rng: np.random.Generator, *, by_share: bool = False) -> list[int]:
        """`k` draws with replacement, uniformly or with probability p_i."""
        if not len(self):
            return []
        if by_share:
            return self._draw_by_share(k, rng)
        if 8 * len(self) < self.clients:
            pool = self.members()
            return [pool[at] for at in rng.integers(len(pool), size=k).tolist()]
        drawn: list[int] = []
        while len(drawn) < k:
            tries = rng.integers(self.clients, size=k - len(drawn)).tolist()
            drawn += [client for client in tries if client not in self.absent]
        return drawn

    def _draw_by_share(self, k: int, rng: np.random.Generator) -> list[int]:
        weights = np.ones(self.clients) if self.shares is None else np.array(self.shares)
        weights[list(self.absent)] = 0.0
        mass = np.cumsum(weights)
        drawn: list[int] = np.searchsorted(mass, rng.random(k) * mass[-1], side="right").tolist()
        return drawn

    def _draw_by_rejection(self, k: int, rng: np.random.Generator, busy: Set[int]) -> list[int]:
        chosen: set[int] = set()
        while len(chosen) < k:
            for c in rng.integers(self.clients, size=k - len(chosen)).tolist():
                if c not in busy and c not in self.absent:
                    chosen.add(c)
        return sorted(chosen)
