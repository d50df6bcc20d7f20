"""All a simulation knows beside the server and the clients, as one plain value."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedpace.sim.broadcasts import Broadcasts
from fedpace.sim.observer import Tally
from fedpace.sim.timeline import Timeline


@dataclass(slots=True)
class SimState:
    """The timeline, models on their way, and counters."""

    line: Timeline = field(default_factory=Timeline)
    broadcasts: Broadcasts = field(default_factory=Broadcasts)
    idle: set[int] = field(default_factory=set)  # would start if a model came
    dispatch_at: float = -1.0  # the instant a dispatch is already scheduled for
    tally: Tally = field(default_factory=Tally)
