"""What a run is, beside its model: fixed when it begins."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fedpace.algorithm import Algorithm
from fedpace.deploy.expectations import Patience
from fedpace.deploy.plan import RunPlan
from fedpace.errors import require, require_count
from fedpace.pace import Replayed, Rounds
from fedpace.tasks.pooling import Channels
from fedpace.vector import Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Rules, sizes and promises of one run."""

    plan: RunPlan
    clients: int  # N: the number of clients that may ever join
    rounds: int  # server steps
    seed: int = 0
    samples: tuple[float, ...] | None = None  # n_i of all clients, where they are known before
    wait_for: int = 1  # clients that must have joined before the first model is sent
    in_order: bool = False  # a cohort's updates reach the server by client number
    patience: Patience = Patience()
    normalisers: Channels = field(default_factory=dict)  # layers with running statistics

    def __post_init__(self) -> None:
        require_count(self.clients, "clients")
        require_count(self.rounds, "rounds")
        require_count(self.wait_for, "wait_for", high=self.clients)
        pace = self.plan.algorithm.pace
        synchronous = isinstance(pace, Rounds | Replayed)
        require(synchronous or not self.in_order, "in_order", type(pace).__name__, "for synchronous pacing")
        private = self.plan.algorithm.privacy is not None
        leaks = ", ".join(self.normalisers) if private else ""
        allowed = (
            "one without running statistics in a private run: their sums would leave clients without noise"
        )
        require(not leaks, "model", leaks, allowed)

    @property
    def behaviour(self) -> Any:
        return self.plan.algorithm.pace.client

    def bound(self, layout: Layout) -> Algorithm:
        """The algorithm as it runs; ConfigError if it must know the samples of all clients, and does not."""
        algorithm, known = self.plan.algorithm, self.samples
        if known is not None:
            return algorithm.bound(layout, self.clients, known.__getitem__)
        guessed = algorithm.bound(layout, self.clients, lambda _: 1.0).aggregate
        fits = guessed == algorithm.aggregate
        rule = type(algorithm.aggregate).__name__
        allowed = f"given for all {self.clients} clients: {rule} needs them before the first one joins"
        require(fits, "samples", None, allowed)
        return algorithm.bound(layout)
