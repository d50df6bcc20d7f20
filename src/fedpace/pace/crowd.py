"""The clients a server may address at one moment."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass

import numpy as np

from fedpace.vector import Vector

Draw = Callable[[], np.random.Generator]


@dataclass(frozen=True, slots=True)
class Crowd:
    """Everybody but the absent. Drawing costs time in proportion to the draw, not to the crowd."""

    clients: int
    absent: Set[int] = frozenset()
    shares: Vector | None = None  # p_i = n_i / sum n_j
    cycle_s: float | None = None  # the fastest client's download, solve and upload, where known

    def __len__(self) -> int:
        return self.clients - len(self.absent)

    def members(self, busy: Set[int] = frozenset()) -> list[int]:
        """Everybody present and not busy, in order."""
        return [c for c in range(self.clients) if c not in busy and c not in self.absent]

    def draw(self, k: int, rng: np.random.Generator, busy: Set[int] = frozenset()) -> list[int]:
        """`k` distinct clients, uniformly; fewer if fewer are there."""
        free = len(self) - len(busy)  # at least
        if free >= 2 * k and 8 * free >= self.clients:  # a try succeeds with probability 1/16 or more
            return self._draw_by_rejection(k, rng, busy)
        pool = self.members(busy)
        return sorted(rng.choice(pool, min(k, len(pool)), replace=False).tolist()) if pool else []

    def draw_repeatedly(self, k: int, rng: np.random.Generator, *, by_share: bool = False) -> list[int]:
        """`k` draws with replacement, uniformly or with probability p_i."""
        pool = self.members() if self.absent else None
        if pool is not None and not pool:
            return []
        if not by_share:
            at = rng.integers(len(self), size=k)
        else:
            shares = self.shares if self.shares is not None else np.full(self.clients, 1 / self.clients)
            mass = np.cumsum(shares if pool is None else shares[pool])
            at = np.searchsorted(mass, rng.random(k) * mass[-1], side="right")
        return [int(i) if pool is None else pool[int(i)] for i in at]

    def _draw_by_rejection(self, k: int, rng: np.random.Generator, busy: Set[int]) -> list[int]:
        chosen: set[int] = set()
        while len(chosen) < k:
            for c in rng.integers(self.clients, size=k - len(chosen)).tolist():
                if c not in busy and c not in self.absent:
                    chosen.add(c)
        return sorted(chosen)
