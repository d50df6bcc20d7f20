"""Stop 0: who works when, and when the server takes a step.

A pacing rule never sees a vector, and nothing in it can read a clock. The server machine tells it what
happened (`arrived`, `lost`, `joined`, `woke`); once per instant, after everything that happened then, it is
asked what to do (`dispatch`). Whoever finishes at the very instant of a step therefore gets the new model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from fedpace.pace.crowd import Crowd, Draw

# ---------------------------------------------------------------- what clients do


@dataclass(frozen=True, slots=True)
class OnDemand:
    """Train when a model comes, upload, wait for the next."""


@dataclass(frozen=True, slots=True)
class Continuous:
    """Train whenever idle and a model lies in the receive buffer (one slot, overwritten).

    `polled`: a finished update waits in the send buffer (one slot, overwritten) until the server asks.
    `reuse_model`: the receive buffer is not emptied by retrieval. `energy_saving`: rest until polled.
    """

    polled: bool = False
    reuse_model: bool = False
    energy_saving: bool = False


@dataclass(frozen=True, slots=True)
class Interruptible:
    """Train up to the session's steps; reply at once with what is done when interrupted.

    `averaging`: reply with the whole local model and go on from (X + s Y) / (s + 1), s = `averaging` (QuAFL).
    """

    averaging: int | None = None


Behaviour = OnDemand | Continuous | Interruptible

# ---------------------------------------------------------------- what the server orders


@dataclass(frozen=True, slots=True)
class Send:
    """Send a model to one client: the current one, or a past `version` (Replayed)."""

    client: int
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Broadcast:
    """Put the current model into everybody's receive buffer."""


@dataclass(frozen=True, slots=True)
class Poll:
    """Ask one client for what its send buffer holds, or will hold next."""

    client: int


@dataclass(frozen=True, slots=True)
class Interrupt:
    """Ask one client for its progress so far."""

    client: int


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Call `woke` at this time; `now` means once everything that happens at this instant has happened."""

    seconds: float


Order = Send | Broadcast | Poll | Interrupt | WakeAt

# ---------------------------------------------------------------- what becomes of an update


@dataclass(frozen=True, slots=True)
class Header:
    """What a pacing rule sees of an update."""

    client: int
    session: int
    version: int  # v: the version it started from
    round: int  # the server's version when the session was ordered


@dataclass(frozen=True, slots=True)
class Verdict:
    """`count` > 0: fold it in, that often. 0: refuse it for `reason`; None: offer it again after the step."""

    count: int | None
    step: bool = False  # take a server step now
    reason: str = ""


class Pace(Protocol):
    """A pacing rule: a frozen value. Its state is a value that calls return; the one that went in is spent."""

    @property
    def client(self) -> Behaviour: ...

    @property
    def keeps(self) -> int:
        """How many past versions it may ask for, the current one included."""
        ...

    @property
    def per_step(self) -> int | None:
        """How many updates make a step; None: everybody."""
        ...

    def init(self, clients: int) -> Any: ...

    def arrived(self, header: Header, version: int, state: Any) -> tuple[Verdict, Any]:
        """An update came while the server's model is `version`."""
        ...

    def lost(self, client: int, state: Any) -> tuple[bool, Any]:
        """What was expected of this client will not come: it left, failed, or sent something unusable.

        True: take a step without it.
        """
        ...

    def joined(self, client: int, state: Any) -> Any:
        """A client has become available."""
        ...

    def woke(self, now: float, state: Any) -> tuple[bool, Any]:
        """The time asked for with WakeAt has come; True: take a step with what is there."""
        ...

    def dispatch(
        self, version: int, now: float, crowd: Crowd, state: Any, draw: Draw
    ) -> tuple[tuple[Order, ...], Any]:
        """What to do now. Asked at the start, and after anything happened; () when there is nothing to do.

        `draw()` opens a fresh random stream for one choice.
        """
        ...


def awaited(pace: Pace, state: Any) -> int:
    """How many clients the next step was to hear; 0 where whoever comes makes it.

    A rule whose step waits for the very clients it drew says so with a method of this name.
    """
    drawn = getattr(pace, "awaited", None)
    return 0 if drawn is None else drawn(state)
