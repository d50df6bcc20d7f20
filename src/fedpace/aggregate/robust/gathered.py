"""The updates of a step, all of them, in blocks of columns that fit a processor's cache.

Robust rules compare updates with each other, so none can be folded away on arrival. The vectors are held as they
came; everything else is done a block at a time, so that the memory is that of the updates and little more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from fedpace import kernels
from fedpace.aggregate.protocol import Contribution
from fedpace.aggregate.staleness import Weight, discount, staleness_weight
from fedpace.errors import ConfigError, require
from fedpace.vector import Vector

BLOCK_BYTES = 1 << 20  # of all updates together: what a core's own cache holds


class Rows(Protocol):
    """n vectors of one length, read a block of columns at a time."""

    @property
    def count(self) -> int: ...

    @property
    def like(self) -> Vector:
        """A vector of the same length and type."""
        ...

    def row(self, i: int, columns: slice) -> Vector:
        """Some columns of one vector; not to be written to."""
        ...


@dataclass(frozen=True, slots=True)
class GatheredUpdates:
    """The updates that came so far, discounted by age, with multiplicity."""

    rows: tuple[Vector, ...] = ()
    keys: tuple[float, ...] = ()  # a random one for each, where the rule shuffles
    memory: Vector | None = None  # what the rule remembers of the step before

    @property
    def count(self) -> int:
        return len(self.rows)

    @property
    def like(self) -> Vector:
        if not self.rows:
            raise ConfigError("a server step must have at least one update; got 0")
        return self.rows[0]

    def row(self, i: int, columns: slice) -> Vector:
        return self.rows[i][columns]


@dataclass(frozen=True, slots=True)
class Gathering:
    """What robust rules share: every update counts the same, whatever its client claims of its samples.

    `staleness` discounts an update by its age before the rule sees it, as FedBuff does before its mean.
    """

    staleness: Weight | str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "staleness", staleness_weight(self.staleness))

    @property
    def fewest(self) -> int:
        """The fewest updates of a step that the rule takes."""
        return 1

    def init(self, x: Vector, clients: int) -> GatheredUpdates:
        require(clients >= self.fewest, "clients", clients, f">= {self.fewest} for {self!r}")
        return GatheredUpdates()

    def add(self, update: Contribution, start: Vector, x: Vector, state: GatheredUpdates) -> GatheredUpdates:
        factor = discount(self.staleness, update.staleness)
        row = update.delta if factor == 1.0 else kernels.scaled(update.delta, factor)
        return GatheredUpdates(
            state.rows + (row,) * update.count, state.keys + self.drawn(update), state.memory
        )

    def result(self, state: GatheredUpdates) -> tuple[Vector, GatheredUpdates]:
        total, memory = self.remembering(state, state.memory)
        return total, GatheredUpdates(memory=memory)

    def remembering(self, rows: Rows, memory: Vector | None) -> tuple[Vector, Vector | None]:
        """The rule with what it remembers; most rules remember nothing."""
        return self.combined(rows), memory

    def combined(self, rows: Rows) -> Vector:
        """The rule itself: many vectors -> one, new."""
        raise NotImplementedError

    def drawn(self, update: Contribution) -> tuple[float, ...]:
        """A random key per time it counts, where the rule shuffles."""
        return ()


def blocks(rows: Rows) -> Iterator[slice]:
    """The columns, a block at a time."""
    like = rows.like
    width = max(1, BLOCK_BYTES // (rows.count * like.itemsize))
    return (slice(low, min(low + width, like.size)) for low in range(0, like.size, width))


def sorted_blocks(rows: Rows) -> Iterator[tuple[slice, Vector]]:
    """For each block of columns, every column's values in ascending order, one column after another."""
    for columns in blocks(rows):
        block = np.empty((columns.stop - columns.start, rows.count), rows.like.dtype)
        for i in range(rows.count):
            block[:, i] = rows.row(i, columns)
        block.sort(axis=1)
        yield columns, block


def weighted_sum(rows: Rows, weights: Vector) -> Vector:
    """Σ w_i v_i, new."""
    total = kernels.empty_like(rows.like)
    for columns in blocks(rows):
        part = total[columns]
        part.fill(0)
        for i in np.flatnonzero(weights).tolist():
            part += float(weights[i]) * rows.row(i, columns)
    return total


def distances(rows: Rows, centre: Vector) -> Vector:
    """The Euclidean distance of each vector from `centre`."""
    squares = np.zeros(rows.count)
    for columns in blocks(rows):
        near = centre[columns].astype(np.float64)
        for i in range(rows.count):
            apart = rows.row(i, columns) - near
            squares[i] += np.einsum(
                "k,k->", apart, apart
            )  # unlike BLAS, the same sum on any number of threads
    return np.sqrt(squares)
