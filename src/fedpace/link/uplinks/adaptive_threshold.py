"""A lazy threshold that each client adapts to a target share of skipped uploads."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from fedpace.errors import require, require_number
from fedpace.link.protocol import Codec, Context
from fedpace.link.uplinks.accumulate import Accumulate, Debt
from fedpace.link.wire import frame as wire
from fedpace.link.wire.frame import Kind
from fedpace.vector import Vector

LOWEST, HIGHEST = 0.5, 2.0  # of tau


@dataclass(frozen=True, slots=True)
class Adapted:
    """The sender's state; the receiver uses `link` only."""

    tau: float  # the threshold of the next decision
    link: Debt


@dataclass(frozen=True, slots=True)
class AdaptiveThreshold:
    """`Accumulate` with a threshold of each client's own, so that it skips the share `skip` of its uploads.

    A Robbins-Monro rule of constant gain gamma, from tau_0 = `link.tau`, after each decision:

        log tau <- log tau + gamma (skip - 1[skipped]),    tau in [1/2, 2]

    While tau stays inside its bounds, the number of skips in n decisions is n skip + log(tau_0 / tau_n) / gamma: no
    assumption on the updates is needed. A client whose codec leaves too much behind even for tau = 2 skips less; one
    whose updates cancel, or are zero, skips more. Clients do not know of each other. An upload that is sent in any
    case, the first one or one after `max_staleness` rounds, is no decision and leaves tau as it is.
    The lower bound is below 1, where a client skips only if its debt opposes its update: with 1 as the bound the
    decrease after a skip, gamma (1 - skip), would be cut off, and more would be skipped than asked for.
    """

    skip: float
    link: Accumulate
    gamma: float = 0.2

    def __post_init__(self) -> None:
        require_number(self.skip, "AdaptiveThreshold.skip", above=0, high=0.5, allowed="in (0, 0.5]")
        require_number(self.gamma, "AdaptiveThreshold.gamma", above=0, high=1, allowed="in (0, 1]")
        require(isinstance(self.link, Accumulate), "AdaptiveThreshold.link", self.link, "Accumulate")
        allowed = f"in [{LOWEST:g}, {HIGHEST:g}]"
        require_number(self.link.tau, "AdaptiveThreshold.link.tau", low=LOWEST, high=HIGHEST, allowed=allowed)

    @property
    def codec(self) -> Codec:
        return self.link.codec

    def init(self, size: int, dtype: np.dtype[np.floating]) -> Adapted:
        return Adapted(self.link.tau, self.link.init(size, dtype))

    def send(
        self, v: Vector, state: Adapted, context: Context, rng: np.random.Generator
    ) -> tuple[bytes, Adapted]:
        frame, debt = replace(self.link, tau=state.tau).send(v, state.link, context, rng)
        if not self.link.decides(state.link, context):
            return frame, Adapted(state.tau, debt)
        return frame, Adapted(self._next(state.tau, wire.peek(frame).kind is Kind.SKIP), debt)

    def receive(self, frame: bytes, state: Adapted, size: int) -> tuple[Vector, Adapted]:
        used, debt = self.link.receive(frame, state.link, size)
        return used, Adapted(state.tau, debt)

    def resync(self, state: Adapted) -> Adapted:
        return Adapted(state.tau, self.link.resync(state.link))

    def _next(self, tau: float, skipped: bool) -> float:
        return min(max(tau * math.exp(self.gamma * (self.skip - skipped)), LOWEST), HIGHEST)
