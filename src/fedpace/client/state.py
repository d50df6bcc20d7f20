"""All a client knows, as one plain value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fedpace.client.life import Life
from fedpace.link.protocol import Context
from fedpace.server.messages import Update
from fedpace.vector import Vector


@dataclass(frozen=True, slots=True)
class Delivery:
    """A model in the receive buffer, not yet taken out."""

    version: int
    round: int
    missed: bool = False  # its client was away when it was sent, and fetches it when taking it out


@dataclass(slots=True)
class Session:
    """One local training: what decides its outcome.

    It is never changed, and not frozen: every session makes one, and a frozen one takes three times as long.
    """

    number: int
    version: int  # the server version behind `start`; -1 for a model only this client holds
    round: int
    start: Vector
    steps: int
    context: Context
    correction: Vector | None = None  # added to every gradient
    generation: int = 0  # of the corrections
    memory: Vector | None = None  # what the client had kept when the session began
    beside: int = 0  # steps that train only what stays on the client


@dataclass(slots=True)
class Times:
    """When a client's session took its model out of the receive buffer, began to compute, and will be done."""

    taken_s: float = 0.0
    began_s: float = 0.0
    ends_s: float = 0.0

    def set(self, taken_s: float, began_s: float, ends_s: float) -> None:
        """Of the client's next session."""
        self.taken_s, self.began_s, self.ends_s = taken_s, began_s, ends_s


@dataclass(frozen=True, slots=True)
class Memories:
    """What a client remembers once its upload is acknowledged."""

    up: Any
    control: Any
    kept: Vector | None = None


@dataclass(slots=True)
class ClientState:
    life: Life = field(default_factory=Life)
    sessions: int = 0  # sessions begun
    inbox: Delivery | None = None  # receive buffer: one slot, overwritten
    seen: int = -1  # newest broadcast taken out
    running: Session | None = None
    times: Times = field(default_factory=Times)  # of the running session
    outbox: Session | None = None  # finished and not yet sent: one slot
    upload: Update | None = None  # sent and not yet acknowledged: one at most
    pending: Memories | None = None  # the memories as they will be once `upload` is acknowledged
    up: Any = None  # what the uplink remembers
    held: Any = None  # what the downlink remembers
    control: Any = None  # what the correction remembers
    generation: int = 0  # of what it remembers: a newer one begins with nothing
    kept: Vector | None = None  # what local training keeps for the next session
    own: Vector | None = None  # the model it ended its last session with, where it averages (QuAFL)
