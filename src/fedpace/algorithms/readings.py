"""How the listings of the lazy algorithms are read: one table of what each mode changes.

Where a listing leaves open which previous value a fresh one is compared with, both readings are here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fedpace import logs
from fedpace.errors import require

REALISABLE, LITERAL = "realisable", "literal"
FORMER = {"as_published": REALISABLE}


@dataclass(frozen=True, slots=True)
class Reading:
    """What a mode decides."""

    reference: str  # NLA, up and down: the value that a fresh one is compared with, and that is used again
    first: str  # a client's first model: whole, or compressed like any other (theta_0 = 0)
    bounded: bool  # whether max_staleness applies; the listings have none


READINGS = {
    REALISABLE: Reading("held", "dense", True),  # the value that the receiver holds
    LITERAL: Reading("raw", "zero", False),  # the sender's previous one, whether it was sent or not
}
PHANTOM = (
    "uses values that were not transmitted: its savings exist in simulation only; "
    f'mode="{REALISABLE}" is the nearest protocol that can be run'
)


def reading(mode: str, rule: str, reference: str | None = None, warn: bool = True) -> Reading:
    """What this mode decides for a rule; a `reference` that is given decides instead of it."""
    known = FORMER.get(mode, mode) if isinstance(mode, str) else ""
    require(known in READINGS, "mode", mode, " or ".join(READINGS))
    if known != mode and warn:
        logs.warn(f'mode="{mode}" is now called "{known}": the same runs', FutureWarning, stacklevel=6)
    read = READINGS[known]
    chosen = reference or (read.reference if rule == "nla" else "held")
    if chosen == "raw" and rule == "nla" and warn:
        asked = f'mode="{mode}"' if reference is None else f'reference="{reference}"'
        logs.warn(f"{asked} {PHANTOM}", UserWarning, stacklevel=6)
    return replace(read, reference=chosen)
