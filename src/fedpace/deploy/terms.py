"""What a run is, beside its model: fixed when it begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fedpace.aggregate.expected import settled
from fedpace.algorithm import Algorithm
from fedpace.deploy.expectations import Patience
from fedpace.deploy.plan import RunPlan
from fedpace.errors import require, require_count
from fedpace.local.sgd import MAX_STEPS
from fedpace.pace import Replayed, Rounds
from fedpace.server.admission import is_amount
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
        """The algorithm as it begins; where it asks for samples that are not known yet, `settled` follows."""
        known = self.samples
        return self.plan.algorithm.bound(layout, self.clients, None if known is None else known.__getitem__)

    def believes(self, samples: float) -> bool:
        """Whether a client may have so many: within limits, and with no more local steps than a session may have."""
        rules = self.plan.algorithm
        if not is_amount(samples, rules.limits.samples):
            return False
        most = getattr(rules.local, "max_work", lambda _: None)(samples)
        return most is None or most <= MAX_STEPS

    @property
    def gathers(self) -> bool:
        """Whether the aggregation rule has constants that need the samples which clients tell when they join."""
        return self.samples is None and needs_samples(self.plan.algorithm, self.clients)

    def settled(self, samples: Mapping[int, float]) -> Any:
        """The aggregation rule with the constants of the clients that joined before the first model was sent.

        Of clients without any samples there are none: the rule then goes by the updates that arrive.
        """
        rules, known = self.plan.algorithm, sorted(samples)
        if not any(samples.values()):
            return rules.aggregate
        return settled(rules.aggregate, rules.local, rules.pace, self.clients, samples.__getitem__, known)


def needs_samples(algorithm: Algorithm, clients: int) -> bool:
    """Whether its aggregation rule has constants of the population, such as FedNova's."""
    everybody = algorithm.aggregate, algorithm.local, algorithm.pace, clients, lambda _: 1.0
    return bool(settled(*everybody) != algorithm.aggregate)
