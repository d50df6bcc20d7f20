"""The only clock of a simulation: events in order of (time, phase, client, order of scheduling)."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

SERVER = 1 << 62  # sorts after every client at the same instant and phase


class Phase(IntEnum):
    """The order of events at one instant, so that a client that finishes when the server steps gets the new model."""

    CHANGE = 0  # a client leaves or joins
    COMPUTED = 1  # a session ends
    UPLINK = 2  # an update reaches the server
    WAKE = 3  # a timer of the server
    DISPATCH = 4  # the server sends, reading the version that is current now
    DOWNLINK = 5  # a model reaches a receive buffer
    START = 6  # an idle client with a model begins a session


Event = tuple[float, Phase, int, int, Any]


@dataclass(slots=True)
class Timeline:
    now: float = 0.0
    serial: int = 0
    heap: list[Event] = field(default_factory=list)

    def at(self, when: float, phase: Phase, client: int = SERVER, what: Any = None) -> None:
        if when < self.now:
            raise ValueError(f"an event must not lie in the past: {when} < {self.now}")
        self.serial += 1
        heapq.heappush(self.heap, (when, phase, client, self.serial, what))

    def pop(self) -> Event:
        """The next event; the clock moves to it."""
        event = heapq.heappop(self.heap)
        self.now = event[0]
        return event
