"""The point whose distances from all updates have the smallest sum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedpace.aggregate.robust.gathered import Gathering, Rows, distances, weighted_sum
from fedpace.aggregate.robust.median import median
from fedpace.errors import require_count, require_number
from fedpace.vector import Vector


@dataclass(frozen=True, slots=True)
class GeometricMedian(Gathering):
    """argmin_z Σ ||z - delta_i||, by the smoothed Weiszfeld iteration: weights 1 / max(nu, ||z - delta_i||).

    Pillutla et al. 2022, arXiv:1912.13445 (RFA), Algorithm 2. Breakdown point 1/2.
    Sign: deltas are displacements; the server adds Δ_t.
    Departures: uniform weights, since samples are what a client claims; it begins at the coordinate-wise median and not
    at the mean, which one update can carry anywhere; it ends early once z moves by less than `tolerance` of the
    median distance. `nu` is relative to the median distance too.
    """

    iterations: int = 32
    tolerance: float = 1e-6
    nu: float = 1e-6

    def __post_init__(self) -> None:
        Gathering.__post_init__(self)
        require_count(self.iterations, "GeometricMedian.iterations", high=10_000)
        require_number(self.tolerance, "GeometricMedian.tolerance", low=0, below=1, allowed="in [0, 1)")
        require_number(self.nu, "GeometricMedian.nu", above=0, below=1, allowed="in (0, 1)")

    def combined(self, rows: Rows) -> Vector:
        z = median(rows)
        for _ in range(self.iterations):
            far = distances(rows, z)
            scale = float(np.median(far))
            if scale == 0:  # half of the updates are equal: that is where the minimum is
                return z
            pulls = 1 / np.maximum(self.nu * scale, far)
            before, z = z, weighted_sum(rows, pulls / pulls.sum())
            if np.linalg.norm(z - before) <= self.tolerance * scale:
                return z
        return z
