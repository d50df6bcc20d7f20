"""All a client knows, as one plain value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fedpace.link.protocol import Context
from fedpace.vector import Vector


@dataclass(frozen=True, slots=True)
class Delivery:
    """A model in the receive buffer, not yet taken out."""

    version: int
    round: int
    missed: bool = False  # its client was away when it was sent, and fetches it when taking it out


@dataclass(frozen=True, slots=True)
class Session:
    """One local solve: what decides its outcome."""

    number: int
    version: int  # the server version behind `start`; -1 for a model only this client holds
    round: int
    start: Vector
    steps: int
    context: Context
    correction: Vector | None = None  # added to every gradient


@dataclass(frozen=True, slots=True)
class Times:
    """When a session took its model out of the receive buffer, began to compute, and will be done."""

    taken_s: float = 0.0
    began_s: float = 0.0
    ends_s: float = 0.0


@dataclass(slots=True)
class ClientState:
    sessions: int = 0  # sessions begun
    inbox: Delivery | None = None  # receive buffer: one slot, overwritten
    seen: int = -1  # newest broadcast taken out
    running: Session | None = None
    times: Times = Times()  # of the running session
    outbox: Session | None = None  # finished and not yet sent: one slot
    upload: Session | None = None  # sent and not yet acknowledged: one at most
    pending: Any = None  # the memories as they will be once `upload` is acknowledged
    wanted: bool = False  # the server asked and there was nothing to send
    resting: bool = False  # saves energy until polled
    up: Any = None  # what the uplink remembers
    held: Any = None  # what the downlink remembers
    control: Any = None  # what the correction remembers
