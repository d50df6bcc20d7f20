"""FedProx with another τ_eff: its own weights, and the step of a server that counts local steps."""

from __future__ import annotations

from dataclasses import dataclass

from fedpace.aggregate.protocol import Contribution
from fedpace.aggregate.total import Total
from fedpace.vector import Vector


@dataclass(frozen=True, slots=True)
class Lengths:
    mean: Total  # Σ n_i delta_i, and Σ n_i
    steps: float = 0.0  # Σ n_i K_i
    norms: float = 0.0  # Σ n_i ||a_i||_1


@dataclass(frozen=True, slots=True)
class LongerSteps:
    """The mean by samples, times Σ p K / Σ p ||a||_1: as if proximal steps were as long as plain ones.

    Wang et al. (FedNova), Figure 7, right, the green curve: τ_eff = Σ p_i K_i instead of its default Σ p_i ||a_i||_1,
    aggregation weights as they are. Sign: deltas are displacements, added.
    """

    def init(self, x: Vector, clients: int) -> Lengths:
        return Lengths(Total())

    def add(self, update: Contribution, start: Vector, x: Vector, state: Lengths) -> Lengths:
        share = update.count * update.samples
        return Lengths(
            state.mean.plus(update.delta, share, share),
            state.steps + share * update.steps,
            state.norms + share * update.a_norm1,
        )

    def result(self, state: Lengths) -> tuple[Vector, Lengths]:
        mean = state.mean.mean()
        mean *= float(state.steps / state.norms)
        return mean, Lengths(Total())
