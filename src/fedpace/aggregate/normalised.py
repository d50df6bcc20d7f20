"""FedNova: normalised averaging."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedpace.aggregate.protocol import Contribution
from fedpace.aggregate.total import Total
from fedpace.errors import require, require_number
from fedpace.vector import Vector, settle


@dataclass(frozen=True, slots=True)
class NormalisedState:
    mean: Total  # Σ p_i (A / A_i) delta_i, and P = Σ p_i
    unit: float = 1.0  # A, the A_i of the first update: everything is measured in it
    work: float = 0.0  # Σ p_i A_i / A, or Σ p_i K_i / A


@dataclass(frozen=True, slots=True)
class Normalised:
    """FedNova: every client's mean gradient counts by its share, however many steps it took.

    Wang et al., "Tackling the Objective Inconsistency Problem in Heterogeneous Federated Optimization",
    arXiv:2007.07481, Algorithm 1, with A_i = ||a_i||_1 and sums over those that arrived:

        Δ_t   = τ_eff Σ (p_i / P) delta_i / A_i,     P = Σ p_i
        τ_eff = Σ (p_i / P) A_i                              tau_eff="default"
                Σ (p_i / P) K_i                              tau_eff="steps"
                c                                            tau_eff=c

    `weighting`: "samples" makes p_i the sample count n_i; "uniform" makes it 1, for clients drawn by sample
    share with replacement (scheme A of App. G) and for uniform objectives.
    Sign: deltas are displacements; the server adds Δ_t.
    Departures: the learning rate cancels and is not divided by. Where all A_i are equal the result is that of
    `Weighted` (or `Mean`) to the bit: sums are kept in units of the first A_i, and the division comes last. An
    update without a step (interrupted at once) has A_i = 0 and counts as a mean gradient of zero.
    """

    tau_eff: str | float = "default"
    weighting: str = "samples"

    def __post_init__(self) -> None:
        settle(self)
        if isinstance(self.tau_eff, str):
            named = self.tau_eff in ("default", "steps")
            require(named, "Normalised.tau_eff", self.tau_eff, '"default", "steps" or a number > 0')
        else:
            require_number(
                self.tau_eff,
                "Normalised.tau_eff",
                above=0,
                below=math.inf,
                allowed='"default", "steps" or a number > 0',
            )
        weighting = self.weighting in ("samples", "uniform")
        require(weighting, "Normalised.weighting", self.weighting, '"samples" or "uniform"')

    def init(self, x: Vector, clients: int) -> NormalisedState:
        return NormalisedState(Total())

    def add(self, update: Contribution, start: Vector, x: Vector, state: NormalisedState) -> NormalisedState:
        share = update.count * (update.samples if self.weighting == "samples" else 1.0)
        own = update.a_norm1
        require_number(own, "||a||_1 of an update", low=0, below=math.inf, allowed=">= 0 to normalise by")
        unit = (own or 1.0) if state.mean.vector is None else state.unit
        work = (update.steps if self.tau_eff == "steps" else own) / unit
        mean = state.mean.plus(update.delta, share * (unit / own) if own else 0.0, share)
        return NormalisedState(mean, unit, state.work + share * work)

    def result(self, state: NormalisedState) -> tuple[Vector, NormalisedState]:
        mean = state.mean.mean()
        named = isinstance(self.tau_eff, str)
        weight = state.mean.weight or 1.0  # updates without any weight move nothing
        tau = float(state.work / weight if named else float(self.tau_eff) / state.unit)
        if tau != 1.0:
            mean *= tau
        return mean, NormalisedState(Total())
