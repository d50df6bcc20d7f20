"""What crosses the link. Frozen values; the bytes are in `frames`, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fedpace.link.protocol import Context
from fedpace.pace.protocol import Header
from fedpace.vector import Vector


@dataclass(frozen=True, slots=True)
class Deliver:
    """Server -> one client's receive buffer: a model. Its frames are made when the client takes it out."""

    client: int
    version: int
    round: int  # server steps taken when this was ordered


@dataclass(frozen=True, slots=True)
class Announce:
    """Server -> everybody's receive buffer."""

    version: int
    round: int


@dataclass(frozen=True, slots=True)
class Ask:
    """Server -> client: send what you have stored."""

    client: int


@dataclass(frozen=True, slots=True)
class Stop:
    """Server -> client: send what you have done so far. `version` is the server's model at that moment."""

    client: int
    version: int


Message = Deliver | Announce | Ask | Stop


@dataclass(frozen=True, slots=True)
class Parcel:
    """What a client takes out of its receive buffer."""

    version: int
    round: int
    frames: Mapping[str, bytes]  # "model"; "control" where a correction travels; "seed" at a first contact
    context: Context

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self.frames.values()))


@dataclass(frozen=True, slots=True)
class Update:
    """Client -> server: the displacement of one session."""

    client: int
    session: int
    version: int  # the version the session started from; -1: `frames` hold the client's whole model
    round: int
    steps: int
    a_norm1: float
    samples: float
    frames: Mapping[str, bytes]  # "update", and "control" where a correction travels; {}: it was not finite

    @property
    def header(self) -> Header:
        return Header(self.client, self.session, self.version, self.round)

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self.frames.values()))


@dataclass(frozen=True, slots=True)
class Step:
    """For the driver: the server took a step, with these members in order of arrival."""

    version: int
    x: Vector  # the model after it
    clients: tuple[int, ...]  # with multiplicity
    sessions: tuple[int, ...]  # of each client's own count, aligned with `clients`
    staleness: tuple[int, ...]  # aligned with `clients`


@dataclass(frozen=True, slots=True)
class Receipt:
    """Server -> client: whether an update was taken. `resync`: forget what you hold and send in full next time."""

    accepted: bool
    reason: str = ""
    resync: bool = False
    steps: tuple[Step, ...] = ()
