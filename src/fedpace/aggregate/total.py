"""The running sum that streaming aggregation rules share."""

from __future__ import annotations

from dataclasses import dataclass

from fedpace import kernels
from fedpace.errors import ConfigError
from fedpace.vector import Vector


@dataclass(frozen=True, slots=True)
class Total:
    """Σ w_i v_i and the weight to divide it by. The vector is the state's own and is added to in place."""

    vector: Vector | None = None  # None: nothing added yet
    weight: float = 0.0

    def plus(self, v: Vector, factor: float, weight: float) -> Total:
        """factor * v more, and `weight` more to divide by; what went in is spent."""
        factor, weight = float(factor), self.weight + float(weight)  # a numpy scalar would widen float32
        if self.vector is None:
            return Total(kernels.scaled(v, factor), weight)
        kernels.add_scaled(self.vector, v, factor)
        return Total(self.vector, weight)

    def sum(self) -> Vector:
        """Σ w_i v_i."""
        if self.vector is None:
            raise ConfigError("a server step must have at least one update; got 0")
        return self.vector

    def mean(self) -> Vector:
        """Σ w_i v_i / weight: the division comes last, so that sums of dyadic numbers stay exact."""
        vector = self.sum()
        if self.weight not in (0.0, 1.0):  # updates without any weight move nothing
            vector /= self.weight
        return vector
