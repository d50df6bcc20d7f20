"""The cross-client variance reduction of FedNova-VR."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from fedpace.errors import require, require_flag
from fedpace.local.correction import mean_gradient
from fedpace.vector import Vector

if TYPE_CHECKING:
    from fedpace.aggregate.protocol import Contribution


@dataclass(frozen=True, slots=True)
class VarianceState:
    mean: Vector  # ḡ as broadcast: the mean of what the clients seen so far remember
    total: Vector  # Σ p_i g_i over them
    weights: dict[int, float]  # p_i of the clients seen, up to a factor
    new_weights: dict[int, float]  # of those whose updates came since the last step


@dataclass(frozen=True, slots=True)
class VarianceReduced:
    """FedNova-VR: each gradient is moved by an estimate of the mean gradient minus the client's own.

    Wang et al., "Tackling the Objective Inconsistency Problem in Heterogeneous Federated Optimization",
    arXiv:2007.07481, Algorithm 2, with ĝ_i = −delta_i / (η ||a_i||_1) and ḡ = Σ p_i ĝ_i:

        y   ← y − η r,  r = ρ r + g_i(y) + c_i
        c_i ← c_i − ĝ_i + ḡ                                  accumulate
        c_i ← −ĝ_i + ḡ                                       as printed

    ĝ_i contains c_i already, so the printed rule applies half of the correction and stops away from the
    optimum. Written with the uncorrected g_i = ĝ_i − c_i (printed: ĝ_i), both are c_i = ḡ − g_i, where
    ḡ = Σ p_i g_i because Σ p_i c_i = 0. The client remembers g_i and sends by how much it changed.
    Sign: delta = y − x.
    Departures: `accumulate` is the default. Partial participation, which the paper leaves open: ḡ is the mean
    over all clients seen so far, and a client not seen yet adds nothing (experimental).
    """

    accumulate: bool = True
    weighting: str = "samples"  # p_i by sample count, or "uniform"; as the aggregation has it

    def __post_init__(self) -> None:
        require_flag(self.accumulate, "VarianceReduced.accumulate")
        weighting = self.weighting in ("samples", "uniform")
        require(weighting, "VarianceReduced.weighting", self.weighting, '"samples" or "uniform"')

    def init(self, x: Vector, clients: int) -> VarianceState:
        return VarianceState(np.zeros_like(x), np.zeros_like(x), {}, {})

    def broadcast(self, state: VarianceState) -> Vector:
        return state.mean

    def before(self, memory: Vector | None, control: Vector) -> Vector | None:
        return None if memory is None else control - memory

    def after(
        self, memory: Vector | None, correction: Vector | None, delta: Vector, a_norm1: float, lr: float
    ) -> tuple[Vector, Vector]:
        g = mean_gradient(delta, correction if self.accumulate else None, a_norm1, lr)
        return g if memory is None else g - memory, g

    def fold(self, update: Contribution, control: Vector, state: VarianceState) -> VarianceState:
        weight = update.samples if self.weighting == "samples" else 1.0
        total = state.total + (control if weight == 1.0 else weight * control)
        return replace(state, total=total, new_weights={**state.new_weights, update.client: weight})

    def stepped(self, state: VarianceState) -> VarianceState:
        weights = {**state.weights, **state.new_weights}
        weight = math.fsum(weights.values()) or 1.0  # clients without any weight correct nothing
        return VarianceState(state.total / weight, state.total, weights, {})
