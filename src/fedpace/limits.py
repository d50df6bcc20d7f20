"""Upper bounds on what a server accepts from a client."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedpace.errors import require_count, require_number


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on what clients claim, and on what the server holds for them. An update past one of them is refused.

    Claims of samples count where none were registered when the client joined; registered ones win. Steps are
    further bounded by what the local rule can take, and a_norm1 must be the one that belongs to the steps.
    """

    samples: float = 1e9
    steps: int = 10**9
    a_norm1: float = 1e12
    session_jump: int = 10**6  # how far a session's number may lie above the last one taken
    waiting: int = 8  # updates of one client that wait for the next step (Arrivals with `distinct`)
    versions: int = 64  # models one client took or waits for, beside the newest sent to it

    def __post_init__(self) -> None:
        require_number(self.samples, "Limits.samples", above=0, below=math.inf, allowed="> 0 and finite")
        require_number(self.a_norm1, "Limits.a_norm1", above=0, below=math.inf, allowed="> 0 and finite")
        for name in ("steps", "session_jump", "waiting", "versions"):
            require_count(getattr(self, name), f"Limits.{name}")
