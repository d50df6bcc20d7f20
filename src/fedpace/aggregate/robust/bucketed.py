"""A robust rule on the means of small random groups."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedpace.aggregate.protocol import Contribution
from fedpace.aggregate.robust.gathered import GatheredUpdates, Gathering, Rows
from fedpace.errors import ConfigError, require, require_count
from fedpace.vector import Vector


@dataclass(frozen=True, slots=True)
class Bucketed(Gathering):
    """Shuffle the updates, average them in buckets of `size`, and give the means to `rule`.

    Karimireddy, He, Jaggi 2022, arXiv:2006.09365, Algorithm 1: means of honest updates differ less than the updates
    do, so that skewed data are not taken for attacks. A hostile update spoils its bucket: the breakdown point is
    the rule's, divided by `size`.
    Sign: deltas are displacements; the server adds Δ_t.
    Departures: none. The last bucket may be smaller.
    """

    size: int
    rule: Gathering

    def __post_init__(self) -> None:
        Gathering.__post_init__(self)
        require_count(self.size, "Bucketed.size")
        robust = isinstance(self.rule, Gathering) and not isinstance(self.rule, Bucketed)
        require(
            robust, "Bucketed.rule", self.rule, "Median, TrimmedMean, GeometricMedian, Krum or CenteredClip"
        )

    @property
    def fewest(self) -> int:
        return (self.rule.fewest - 1) * self.size + 1

    def drawn(self, update: Contribution) -> tuple[float, ...]:
        if update.rng is None:
            raise ConfigError("Bucketed must have updates with a random stream; got one without")
        return tuple(update.rng().random(update.count).tolist())

    def result(self, state: GatheredUpdates) -> tuple[Vector, GatheredUpdates]:
        order = np.argsort(state.keys, kind="stable").tolist()
        groups = tuple(tuple(order[low : low + self.size]) for low in range(0, len(order), self.size))
        total, memory = self.rule.remembering(Buckets(state, groups), state.memory)
        return total, GatheredUpdates(memory=memory)


@dataclass(frozen=True, slots=True)
class Buckets:
    """The means of groups of vectors, made a block at a time and never stored."""

    rows: Rows
    groups: tuple[tuple[int, ...], ...]

    @property
    def count(self) -> int:
        return len(self.groups)

    @property
    def like(self) -> Vector:
        return self.rows.like

    def row(self, i: int, columns: slice) -> Vector:
        first, *others = self.groups[i]
        total = self.rows.row(first, columns).copy()
        for other in others:
            total += self.rows.row(other, columns)
        return total / len(self.groups[i])
