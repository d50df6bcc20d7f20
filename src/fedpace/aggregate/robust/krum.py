"""The update that lies closest to most others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedpace.aggregate.robust.gathered import Gathering, Rows, blocks, weighted_sum
from fedpace.errors import TooFewError, require_count
from fedpace.vector import Vector


@dataclass(frozen=True, slots=True)
class Krum(Gathering):
    """The mean of the `keep` updates with the smallest Σ ||delta_i - delta_j||² over their n - f - 2 nearest others.

    Blanchard et al. 2017, NeurIPS, section 4; keep > 1 is Multi-Krum. f = `byzantine`; n >= 2 f + 3.
    Sign: deltas are displacements; the server adds Δ_t.
    Departures: of local updates instead of gradients. A step with fewer updates is not taken.
    """

    byzantine: int
    keep: int = 1

    def __post_init__(self) -> None:
        Gathering.__post_init__(self)
        require_count(self.byzantine, "Krum.byzantine", low=0)
        require_count(self.keep, "Krum.keep")

    @property
    def fewest(self) -> int:
        return max(2 * self.byzantine + 3, self.keep)

    def combined(self, rows: Rows) -> Vector:
        if rows.count < self.fewest:
            raise TooFewError(
                f"a step with {self!r} must have {self.fewest} updates or more; got {rows.count}"
            )
        chosen = np.argsort(self.scores(rows), kind="stable")[: self.keep]
        weights = np.zeros(rows.count)
        weights[chosen] = 1 / self.keep
        return weighted_sum(rows, weights)

    def scores(self, rows: Rows) -> Vector:
        """For each update, the squared distances to its nearest others, added."""
        squares = squared_distances(rows)
        np.fill_diagonal(squares, np.inf)
        squares.sort(axis=1)
        nearest: Vector = squares[:, : rows.count - self.byzantine - 2].sum(axis=1)
        return nearest


def squared_distances(rows: Rows) -> Vector:
    """||v_i - v_j||² for all pairs, by inner products in double precision.

    The product of two updates does not depend on the others, so an enormous one spoils its own distances only.
    """
    products = sum(_products(rows, columns) for columns in blocks(rows))
    own = np.diag(products)
    return np.maximum(own[:, None] + own[None, :] - 2 * products, 0)


def _products(rows: Rows, columns: slice) -> Vector:
    """The inner products of all pairs over some columns."""
    block = np.empty((rows.count, columns.stop - columns.start))
    for i in range(rows.count):
        block[i] = rows.row(i, columns)
    return block @ block.T
