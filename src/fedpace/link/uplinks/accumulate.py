"""Self-triggered uploads: a client that owes little more than its newest update waits, and sends both next time."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedpace.errors import require, require_count, require_number
from fedpace.link.protocol import Codec, Context
from fedpace.link.uplinks import thresholds
from fedpace.link.uplinks.error_feedback import ErrorFeedback
from fedpace.link.wire import frame as wire
from fedpace.link.wire.frame import Kind
from fedpace.vector import Vector


@dataclass(frozen=True, slots=True)
class Debt:
    """The sender's state; the receiver needs none."""

    e: Vector  # what is owed; empty: nothing
    sent_round: int = 0  # when a value was last sent


@dataclass(frozen=True, slots=True)
class Accumulate:
    """Error feedback that sends nothing while p = v + e is hardly longer than v: SKIP if ||p|| <= tau ||v||.

    After LENA (Ghadikolaei, Stich & Jaggi 2021), whose workers also keep what they do not send. A skipped update is
    used as zero and stays in e, so nothing is repeated and nothing is lost: sum of the values used + e = sum of v. A
    client that has just waited owes about 2 v, and sends if tau < 2; one whose codec left much behind does not wait.
    Departures: the threshold is the newest update and not the progress of the model. A client waits for
    `max_staleness` rounds at most, and never with its first update.
    """

    tau: float
    link: ErrorFeedback
    max_staleness: int | None = 10

    def __post_init__(self) -> None:
        require_number(self.tau, "Accumulate.tau", low=0, below=math.inf, allowed=">= 0")
        require(isinstance(self.link, ErrorFeedback), "Accumulate.link", self.link, "ErrorFeedback")
        if self.max_staleness is not None:
            require_count(self.max_staleness, "Accumulate.max_staleness")

    @property
    def codec(self) -> Codec:
        return self.link.codec

    def init(self, size: int, dtype: np.dtype[np.floating]) -> Debt:
        return Debt(np.empty(0, dtype))

    def send(self, v: Vector, state: Debt, context: Context, rng: np.random.Generator) -> tuple[bytes, Debt]:
        p = self.link.owed(v, state.e)
        if self._waits(v, p, state, context):
            return wire.build(Kind.SKIP, round=context.round), Debt(p, state.sent_round)
        frame = self.codec.encode(p, rng)
        c = self.codec.decode(frame, v.size)
        return wire.stamp(frame, round=context.round), Debt(self.link.rest(p, c, c), context.round)

    def receive(self, frame: bytes, state: Debt, size: int) -> tuple[Vector, Debt]:
        if wire.peek(frame).kind is Kind.SKIP:
            wire.check(frame)
            return np.zeros(size, state.e.dtype), state
        used = self.codec.decode(frame, size)
        wire.refuse_link_flags(frame)
        return used, state

    def resync(self, state: Debt) -> Debt:
        return state

    def decides(self, state: Debt, context: Context) -> bool:
        """Whether tau decides: the first update, and one after `max_staleness` rounds, is sent in any case."""
        overdue = self.max_staleness is not None and context.round - state.sent_round > self.max_staleness
        return bool(state.e.size) and not overdue

    def _waits(self, v: Vector, p: Vector, state: Debt, context: Context) -> bool:
        if not self.decides(state, context):
            return False
        owed, fresh = thresholds.squared_norm(p), thresholds.squared_norm(v)
        return bool(owed <= self.tau**2 * fresh < math.inf) and owed < math.inf
