"""Pacing: client scheduling, and when the server takes a step.

A pacing rule never sees a vector, and nothing in it can read a clock. The server machine tells it what
happened (`arrived`, `lost`, `joined`, `woke`); once per instant, after everything that happened then, it is
asked what to do (`dispatch`). A client that finishes at the very instant of a step therefore gets the new model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from fedpace.pace.available import Available, Draw

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

    `averaging`: reply with the whole local model and continue from (X + s Y) / (s + 1), s = `averaging` (QuAFL).
    """

    averaging: int | None = None


Behaviour = OnDemand | Continuous | Interruptible

# ---------------------------------------------------------------- what the server orders

NEWEST = -1  # in an order: filled in by the server, so that a driver always reads the version and the round


@dataclass(frozen=True, slots=True)
class Send:
    """Send a model to one client: the newest, or a past `version` (Replayed).

    `round` is the number of server steps taken when it was ordered.
    """

    client: int
    version: int = NEWEST
    round: int = NEWEST


@dataclass(frozen=True, slots=True)
class Broadcast:
    """Put the newest model into every client's receive buffer."""

    version: int = NEWEST
    round: int = NEWEST


@dataclass(frozen=True, slots=True)
class Poll:
    """Ask one client for what its send buffer holds, or will hold next."""

    client: int


@dataclass(frozen=True, slots=True)
class Interrupt:
    """Ask one client for its progress so far. Where it averages (QuAFL), it continues with the model `version`."""

    client: int
    version: int = NEWEST
    round: int = NEWEST


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Call `woke` at this time; `now` means once everything that happens at this instant has happened."""

    seconds: float


Order = Send | Broadcast | Poll | Interrupt | WakeAt

# ---------------------------------------------------------------- what becomes of an update


class UpdateHeader(Protocol):
    """What a pacing rule sees of an update."""

    @property
    def client(self) -> int: ...

    @property
    def session(self) -> int: ...

    @property
    def version(self) -> int:
        """The version it started from."""
        ...

    @property
    def round(self) -> int:
        """The server's version when the session was ordered."""
        ...


@dataclass(frozen=True, slots=True)
class Decision:
    """`count` > 0: fold it in, that often. 0: refuse it for `reason`; None: offer it again after the step."""

    count: int | None
    step: bool = False  # take a server step now
    reason: str = ""


class Pace(Protocol):
    """A pacing rule: a frozen value. `init` makes its state, which the other calls change in place.

    The state is the one thing in the project that is openly mutable: it holds a set of clients that may have
    a million members, and copying that for every arrival would cost more than the arrival.
    """

    @property
    def client(self) -> Behaviour: ...

    @property
    def keeps(self) -> int:
        """How many past versions it may ask for, the current one included."""
        ...

    @property
    def per_step(self) -> int | None:
        """How many updates make a step; None: one of every client."""
        ...

    def init(self, clients: int) -> Any: ...

    def expects(self, update: UpdateHeader, version: int, state: Any) -> str:
        """Why an update with this header would be refused; "" if it is waited for. Changes nothing."""
        ...

    def arrived(self, update: UpdateHeader, version: int, state: Any) -> Decision:
        """An expected and sound update came while the server's model is `version`."""
        ...

    def lost(self, client: int, state: Any) -> bool:
        """What was expected of this client will not come: it left, failed, or sent something unusable.

        True: take a step without it.
        """
        ...

    def joined(self, client: int, state: Any) -> None:
        """A client has become available."""
        ...

    def woke(self, now: float, state: Any) -> bool:
        """The time asked for with WakeAt has come; True: take a step with the updates received so far."""
        ...

    def dispatch(
        self, version: int, now: float, available: Available, state: Any, draw: Draw
    ) -> tuple[Order, ...]:
        """What to do now. Asked at the start, and after anything happened; () when there is nothing to do.

        `draw()` opens a fresh random stream for one choice.
        """
        ...


def awaited(pace: Pace, state: Any) -> int:
    """How many clients the next step waits for; 0 where the updates of any clients make it.

    A rule whose step waits for the very clients it drew says so with a method of this name.
    """
    drawn = getattr(pace, "awaited", None)
    return 0 if drawn is None else drawn(state)
