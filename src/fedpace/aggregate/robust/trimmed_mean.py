"""The mean of every coordinate without its extremes."""

from __future__ import annotations

from dataclasses import dataclass

from fedpace import kernels
from fedpace.aggregate.robust.gathered import Gathering, Rows, sorted_blocks
from fedpace.errors import require_number
from fedpace.vector import Vector


@dataclass(frozen=True, slots=True)
class TrimmedMean(Gathering):
    """The mean of each coordinate's values without the floor(trim n) largest and as many smallest.

    Yin et al. 2018, arXiv:1803.01498, Algorithm 1, option II. Breakdown point `trim`.
    Sign: deltas are displacements; the server adds Δ_t.
    Departures: of local updates instead of gradients.

    >>> from dataclasses import replace
    >>> from fedpace import aggregate, algorithms, simulate, tasks
    >>> task = tasks.quadratics([1.0, 2.0, 3.0, 4.0, 1000.0])
    >>> trimmed = replace(algorithms.fedavg(steps=1), aggregate=aggregate.TrimmedMean(0.2))
    >>> round(float(simulate(trimmed, task, rounds=200).model[0]), 3)
    3.0
    """

    trim: float = 0.1  # the share cut at each end

    def __post_init__(self) -> None:
        Gathering.__post_init__(self)
        require_number(self.trim, "TrimmedMean.trim", low=0, below=0.5, allowed="in [0, 0.5)")

    def combined(self, rows: Rows) -> Vector:
        cut = cut_at_each_end(self.trim, rows.count)
        out = kernels.empty_like(rows.like)
        for columns, block in sorted_blocks(rows):
            out[columns] = block[:, cut : rows.count - cut].mean(axis=1)
        return out


def cut_at_each_end(trim: float, count: int) -> int:
    """floor(trim n), where a product such as 0.29 * 100 = 28.999999999999996 counts as the 29 it stands for."""
    return int(trim * count + 1e-9)
