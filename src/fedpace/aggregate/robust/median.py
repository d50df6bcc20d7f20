"""The median of every coordinate."""

from __future__ import annotations

from dataclasses import dataclass

from fedpace import kernels
from fedpace.aggregate.robust.gathered import Gathering, Rows, sorted_blocks
from fedpace.vector import Vector


@dataclass(frozen=True, slots=True)
class Median(Gathering):
    """Every coordinate's own median: [Δ_t]_k = med{[delta_i]_k}; the mean of the middle two of an even number.

    Yin et al. 2018, arXiv:1803.01498, Algorithm 1, option I. Breakdown point 1/2.
    Sign: deltas are displacements; the server adds Δ_t.
    Departures: of local updates instead of gradients.
    """

    def combined(self, rows: Rows) -> Vector:
        return median(rows)


def median(rows: Rows) -> Vector:
    """The coordinate-wise median, new."""
    middle, odd = divmod(rows.count, 2)
    low = middle if odd else middle - 1
    out = kernels.empty_like(rows.like)
    for columns, block in sorted_blocks(rows):
        out[columns] = block[:, low] / 2 + block[:, middle] / 2  # halves first: their sum cannot overflow
    return out
