"""Updates per local step: autonomous FedGM's normalisation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedpace.aggregate.expected import ALL, SHARE, ExpectedWork
from fedpace.aggregate.protocol import Contribution
from fedpace.aggregate.total import Total
from fedpace.errors import require, require_number
from fedpace.vector import Vector


@dataclass(frozen=True, slots=True)
class PerStepState:
    total: Total = Total()
    steps: int = 0  # sum of K_i with multiplicity


@dataclass(frozen=True, slots=True)
class PerStep:
    """Delta_t = (K_ref / M) sum_i delta_i / K_i.

    Sun et al., AAAI 2024, Algorithm 4 (autonomous multistage FedGM): each client divides by its *own* step
    count. `k_ref=1` is the paper; `k_ref=K` recovers FedGM for equal K; `"mean"` is the mean of E[K_i] over all
    clients, so that server rates keep their usual size. It must not depend on the clients that arrived: a factor that
    is large when clients with many steps are in counts those clients more again. Under full participation, or where
    the clients' steps are not known before a run, `"mean"` is the mean K_i of the step's updates.
    Sign: the paper's D_i = (x - y) / K is minus ours; ours is added.
    Departures: K_ref. Divides by steps, not by ||a_i||_1; that is `Normalised`.
    """

    k_ref: float | str = 1.0

    def __post_init__(self) -> None:
        if isinstance(self.k_ref, str):
            require(self.k_ref == "mean", "k_ref", self.k_ref, '> 0 or "mean"')
        else:
            require_number(self.k_ref, "k_ref", above=0, allowed='> 0 or "mean"')

    def settled(self, known: Callable[[], ExpectedWork | None]) -> PerStep:
        """The rule for a population whose work is known: "mean" becomes a number."""
        work = known() if self.k_ref == "mean" else None
        if work is None or work.choice == ALL:
            return self
        return PerStep(float(np.average(work.steps, weights=work.samples if work.choice == SHARE else None)))

    def init(self, x: Vector, clients: int) -> PerStepState:
        return PerStepState()

    def add(self, update: Contribution, start: Vector, x: Vector, state: PerStepState) -> PerStepState:
        total = state.total.plus(update.delta / max(1, update.steps), update.count, update.count)
        return PerStepState(total, state.steps + update.count * update.steps)

    def result(self, state: PerStepState) -> tuple[Vector, PerStepState]:
        weight = state.total.weight
        factor = state.steps / weight if self.k_ref == "mean" else float(self.k_ref)
        mean = state.total.mean()
        if factor != 1.0:
            mean *= factor
        return mean, PerStepState()
