"""The previous aggregate, moved by updates that count up to a radius."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedpace import kernels
from fedpace.aggregate.robust.gathered import Gathering, Rows, blocks, distances
from fedpace.errors import require_count, require_number
from fedpace.vector import Vector, freeze


@dataclass(frozen=True, slots=True)
class CenteredClip(Gathering):
    """v <- v + (1/n) Σ (delta_i - v) min(1, radius / ||delta_i - v||), `iterations` times from the previous Δ.

    Karimireddy, He, Jaggi 2021, arXiv:2012.10333, Algorithm 2; v is 0 before the first step.
    Sign: deltas are displacements; the server adds Δ_t = v.
    Departures: of local updates instead of client momenta (a local rule with momentum gives those).
    """

    radius: float
    iterations: int = 3

    def __post_init__(self) -> None:
        Gathering.__post_init__(self)
        require_number(self.radius, "CenteredClip.radius", above=0, below=np.inf, allowed="> 0")
        require_count(self.iterations, "CenteredClip.iterations", high=1000)

    def remembering(self, rows: Rows, memory: Vector | None) -> tuple[Vector, Vector | None]:
        v = np.zeros_like(rows.like) if memory is None else memory
        for _ in range(self.iterations):
            weights = self.radius / np.maximum(distances(rows, v), self.radius) / rows.count
            v = _moved(v, rows, weights)
        return v, freeze(v.copy())


def _moved(centre: Vector, rows: Rows, weights: Vector) -> Vector:
    """centre + Σ w_i (v_i - centre): differences first, since they are small where the vectors may not be."""
    out = kernels.empty_like(centre)
    for columns in blocks(rows):
        at = centre[columns]
        out[columns] = at
        for i in range(rows.count):
            out[columns] += float(weights[i]) * (rows.row(i, columns) - at)
    return out
