"""The aggregator of a private run: the noisy sum of clipped updates over a fixed divisor."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from fedpace.aggregate import Mean, Weighted
from fedpace.aggregate.protocol import Contribution
from fedpace.aggregate.staleness import discount
from fedpace.aggregate.total import Total
from fedpace.privacy import tree
from fedpace.privacy.client_dp import ClientDP
from fedpace.privacy.noise import NoiseSource
from fedpace.vector import Vector, shortened

SUM, COUNT, NODE = range(3)  # what noise is for: the first part of its name


@dataclass(frozen=True, slots=True)
class PrivateSumState:
    size: int  # of the model
    like: Vector  # empty, of the model's type
    clip: float  # C_t
    step: int = 0  # steps taken
    total: Total = Total()  # sum of weighted, clipped updates
    bits: float = 0.0  # sum of the shifted bits
    members: set[int] = field(default_factory=set)  # clients in the open step
    contributions: dict[int, int] = field(default_factory=dict)  # in all steps taken, where they are counted
    spent: frozenset[int] = frozenset()  # clients that have none left
    in_tree: frozenset[int] = frozenset()  # clients of the tree under way

    @property
    def busiest(self) -> int:
        """Contributions of the client with most of them."""
        return max(self.contributions.values(), default=0)


@dataclass(frozen=True, slots=True)
class PrivateSum:
    """Delta_t = (sum_i w_i delta_i min(1, C_t / ||delta_i||) + N(0, (z C_t)^2 I)) / divisor, w_i in [0, 1].

    McMahan et al. 2018, arXiv:1710.06963, with the fixed-denominator estimator. It stands in for `weights` (Mean or
    Weighted) inside the server. A client counts once per step; a step without updates is a step of noise.
    Sign: deltas are displacements; the server adds Delta_t.
    """

    rule: ClientDP
    weights: Mean | Weighted
    divisor: float  # expected cohort, or buffer
    noise: NoiseSource
    counts: bool = True  # whether contributions are counted, client by client
    limit: int | None = None  # how many each client has

    def init(self, x: Vector, clients: int) -> PrivateSumState:
        return PrivateSumState(x.size, np.empty(0, x.dtype), self.rule.clip)

    def longest(self, state: PrivateSumState) -> float:
        return state.clip

    def add(self, update: Contribution, start: Vector, x: Vector, state: PrivateSumState) -> PrivateSumState:
        if update.client in state.members:
            return state
        short = shortened(update.delta, state.clip)
        return replace(
            self.missed(update.client, state),
            total=state.total.plus(short, self._weight(update), 0.0),
            bits=state.bits + (0.5 if short is update.delta else -0.5),
        )

    def missed(self, client: int, state: PrivateSumState) -> PrivateSumState:
        """A client took part with an update that cannot be used: it counts as zero."""
        if not state.members:
            state = replace(state, members=set())  # the step's own
        state.members.add(client)
        return state

    def _weight(self, update: Contribution) -> float:
        weight = discount(self.weights.staleness, update.staleness)
        if isinstance(self.weights, Weighted):
            limit = float(self.rule.sample_limit or math.inf)
            weight *= min(update.samples, limit) / limit
        return min(1.0, max(0.0, weight))

    def result(self, state: PrivateSumState) -> tuple[Vector, PrivateSumState]:
        noisy = self._noise(state)
        if state.total.vector is not None:
            noisy += state.total.vector
        noisy /= self.divisor
        return noisy.astype(state.like.dtype, copy=False), self._next(state)

    def _noise(self, state: PrivateSumState) -> Vector:
        z, step = self.rule.noise_multiplier, state.step
        if self.rule.tree:
            at = tree.TreeStep(step // self.rule.tree_steps, step % self.rule.tree_steps)
            return tree.increment(at, lambda *node: self.noise.normal(state.size, NODE, *node)) * (
                z * state.clip
            )
        if self.rule.adaptive is not None:
            z = self.rule.adaptive.raised(z, self.divisor)
        return self.noise.normal(state.size, SUM, step) * (z * state.clip)

    def _next(self, state: PrivateSumState) -> PrivateSumState:
        contributions, spent = self._counted(state)
        ends = (state.step + 1) % self.rule.tree_steps == 0
        return PrivateSumState(
            state.size,
            state.like,
            self._next_clip(state),
            state.step + 1,
            contributions=contributions,
            spent=spent,
            in_tree=state.in_tree | state.members if self.rule.tree and not ends else frozenset(),
        )

    def _next_clip(self, state: PrivateSumState) -> float:
        adaptive = self.rule.adaptive
        if adaptive is None:
            return state.clip
        [draw] = self.noise.normal(1, COUNT, state.step).tolist()
        bits = state.bits + adaptive.count_noise(self.divisor) * draw
        return adaptive.next_clip(state.clip, bits, self.divisor)

    def _counted(self, state: PrivateSumState) -> tuple[dict[int, int], frozenset[int]]:
        """Contributions with those of this step: a new table, for a step that is not taken keeps the old one."""
        if not self.counts:
            return {}, frozenset()
        known = dict(state.contributions)
        for client in state.members:
            known[client] = known.get(client, 0) + 1
        done = (client for client in state.members if self.limit is not None and known[client] >= self.limit)
        return known, state.spent.union(done)
