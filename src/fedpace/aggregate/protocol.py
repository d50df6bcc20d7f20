"""Aggregation: many updates -> one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from fedpace.vector import Vector


@dataclass(frozen=True, slots=True)
class Contribution:
    """One client's decoded update, as an aggregation rule sees it."""

    client: int
    delta: Vector  # y_end - y_start: to be added
    count: int = 1  # how often it counts (a client drawn twice trains once and counts twice)
    samples: float = 1.0  # n_i, the client's sample count
    steps: int = 1  # K_i, local steps taken
    a_norm1: float = 1.0  # ||a_i||_1, total weight of the local gradients in delta
    staleness: int = 0  # server steps taken since the client's start model
    session: int = 0  # the client's own count of sessions
    version: int = 0  # the version it started from; -1: `delta` is a whole model
    round: int = 0  # server steps taken when the session was ordered
    control: Vector | None = None  # the vector that a correction sent beside it
    rng: Callable[[], np.random.Generator] | None = None  # for rules that round at random


class Aggregator(Protocol):
    """An aggregation rule. Streams: each update is folded in on arrival and need not be stored.

    What `result` returns as the next state must not change any more: a step that is not taken starts again from
    it. What `add` returns is the step's own, and may reuse the vectors and tables that the step made.

    A rule may have `settled(known)`, called once before a run: `known()` tells the clients' expected work
    (`ExpectedWork`, or None), and what it returns runs in the rule's place. It may have `longest(state)`: updates that
    are longer are scaled down by the rule, and counted as clipped.
    """

    def init(self, x: Vector, clients: int) -> Any:
        """The state before the first update."""
        ...

    def add(self, update: Contribution, start: Vector, x: Vector, state: Any) -> Any:
        """Fold one update in. `start` is the model the client began from, `x` the server's model now."""
        ...

    def result(self, state: Any) -> tuple[Vector, Any]:
        """The displacement for the server optimizer, as a vector the caller owns, and the state for the next step."""
        ...
