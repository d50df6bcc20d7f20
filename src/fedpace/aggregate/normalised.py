"""FedNova: normalised averaging."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedpace.aggregate.expected import ALL, SHARE, UNIFORM, ExpectedWork
from fedpace.aggregate.protocol import Contribution
from fedpace.aggregate.total import Total
from fedpace.errors import require, require_number
from fedpace.vector import Vector, settle

NAMES = ("population", "sampled", "steps", "default")
ALLOWED = '"population", "sampled", "steps" or a number > 0'


@dataclass(frozen=True, slots=True)
class NormalisedState:
    mean: Total  # Σ p_i (A / A_i) delta_i, and P = Σ p_i
    unit: float = 1.0  # A, the A_i of the first update: everything is measured in it
    work: float = 0.0  # Σ p_i A_i / A, or Σ p_i K_i / A


@dataclass(frozen=True, slots=True)
class Normalised:
    """FedNova: every client's mean gradient counts by its share, however many steps it took.

    Wang et al., "Tackling the Objective Inconsistency Problem in Heterogeneous Federated Optimization",
    arXiv:2007.07481, Algorithm 1, with A_i = ||a_i||_1 and, unless it says otherwise, sums over those that arrived:

        Δ_t   = τ_eff Σ (p_i / P) delta_i / A_i,     P = Σ p_i
        τ_eff = Σ p_i E[A_i] over all clients                tau_eff="population"
                Σ (p_i / P) A_i                              tau_eff="sampled" (also "default", its old name)
                Σ (p_i / P) K_i                              tau_eff="steps"
                c                                            tau_eff=c

    `weighting`: "samples" makes p_i the sample count n_i, "uniform" makes it 1.

    Under client sampling τ_eff must not depend on the draw (Eq. 153): the τ_eff of the sampled is large
    exactly when clients with many steps are in, which brings the bias back; with one client per round it *is*
    plain averaging. "population" is `settled` to one number before a run, and consistent for clients drawn by
    share with weighting="uniform" (App. G), and for clients drawn uniformly with weighting="samples", where
    p_i / P becomes p_i N / q. Under full participation, or where the population's steps are not known (a time
    budget), it is "sampled".
    Sign: deltas are displacements; the server adds Δ_t.
    Departures: the learning rate cancels and is not divided by. Where all A_i are equal the result is that of
    `Weighted` (or `Mean`) to the bit: sums are in units of the first A_i, and the division comes last. An
    update without a step (interrupted at once) has A_i = 0 and counts as a mean gradient of zero.
    """

    tau_eff: str | float = "population"
    weighting: str = "samples"
    member_weight: float | None = None  # E[n_i] of a member: divide by q times this instead of by P

    def __post_init__(self) -> None:
        settle(self)
        if isinstance(self.tau_eff, str):
            require(self.tau_eff in NAMES, "Normalised.tau_eff", self.tau_eff, ALLOWED)
        else:
            require_number(self.tau_eff, "Normalised.tau_eff", above=0, below=math.inf, allowed=ALLOWED)
        weighting = self.weighting in ("samples", "uniform")
        require(weighting, "Normalised.weighting", self.weighting, '"samples" or "uniform"')
        if self.member_weight is not None:
            require_number(self.member_weight, "Normalised.member_weight", above=0, allowed="> 0, or None")

    def settled(self, known: Callable[[], ExpectedWork | None]) -> Normalised:
        """The rule for a population whose work is known: "population" becomes a number."""
        work = known() if self.tau_eff == "population" else None
        if work is None or work.choice == ALL:
            return self
        by_samples = self.weighting == "samples" or work.choice == SHARE
        shares = work.samples if by_samples else np.ones_like(work.samples)
        unbiased = self.weighting == "samples" and work.choice == UNIFORM
        return Normalised(
            math.fsum(shares * work.a_norm1) / math.fsum(shares),
            self.weighting,
            float(work.samples.mean()) if unbiased else None,
        )

    def init(self, x: Vector, clients: int) -> NormalisedState:
        return NormalisedState(Total())

    def add(self, update: Contribution, start: Vector, x: Vector, state: NormalisedState) -> NormalisedState:
        share = update.count * (update.samples if self.weighting == "samples" else 1.0)
        weight = share if self.member_weight is None else update.count * self.member_weight
        own = update.a_norm1
        require_number(own, "||a||_1 of an update", low=0, below=math.inf, allowed=">= 0 to normalise by")
        unit = (own or 1.0) if state.mean.vector is None else state.unit
        work = (update.steps if self.tau_eff == "steps" else own) / unit
        mean = state.mean.plus(update.delta, share * (unit / own) if own else 0.0, weight)
        return NormalisedState(mean, unit, state.work + share * work)

    def result(self, state: NormalisedState) -> tuple[Vector, NormalisedState]:
        mean = state.mean.mean()
        named = isinstance(self.tau_eff, str)
        weight = state.mean.weight or 1.0  # updates without any weight move nothing
        tau = float(state.work / weight if named else float(self.tau_eff) / state.unit)
        if tau != 1.0:
            mean *= tau
        return mean, NormalisedState(Total())
