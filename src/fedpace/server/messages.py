"""Messages between server, clients and the driver. Frozen values; the bytes are in `frames`, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from fedpace.link.protocol import Context
from fedpace.vector import Vector

WHOLE_MODEL = -1  # in place of a version: the frames hold the client's whole model (QuAFL)


class Framed:
    """A message with frames, whose bytes are what it costs."""

    __slots__ = ()
    frames: Mapping[str, bytes]

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self.frames.values()))


@dataclass(frozen=True, slots=True)
class Parcel(Framed):
    """Server -> client: a model, as a client takes it out of its receive buffer."""

    version: int
    round: int
    frames: Mapping[str, bytes]  # "model"; "control" where a correction travels; "seed" at a first contact
    context: Context
    model: Vector | None = None  # the server's own, for a driver in the same process; it does not travel
    public: Vector | None = None  # likewise the one that every client up to date holds, to be stored once
    generation: int = 0  # of the corrections: they begin anew with every generation
    size_bytes: int = field(init=False, compare=False, repr=False)  # counted once, for all clients it goes to

    def __post_init__(self) -> None:
        object.__setattr__(self, "size_bytes", sum(map(len, self.frames.values())))


@dataclass(frozen=True, slots=True)
class Update(Framed):
    """Client -> server: the displacement of one session; with the frame "resync" the request for a whole model."""

    client: int
    session: int
    version: int  # the version the session started from; -1: `frames` hold the client's whole model
    round: int
    steps: int
    a_norm1: float
    samples: float
    frames: Mapping[str, bytes]  # "update", and "control" where a correction travels; {}: it was not finite
    generation: int = 0  # of the corrections, as the session's model had it


@dataclass(frozen=True, slots=True)
class Receipt:
    """Server -> client: the outcome of an update.

    `taken` is the number of the last session of this client that was taken: it acknowledges every session up to
    it, as often as it is sent. `resync`: forget what you hold and send in full next time.
    """

    accepted: bool
    reason: str = ""
    resync: bool = False
    taken: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """For the driver: the server took a step, with these members in order of arrival."""

    version: int
    x: Vector  # the model after it
    clients: tuple[int, ...]  # with multiplicity
    sessions: tuple[int, ...]  # of each client's own count, aligned with `clients`
    staleness: tuple[int, ...]  # aligned with `clients`
    clipped: int = 0  # members whose update was scaled down
    epsilon: float | None = None  # spent until now, in a private run


@dataclass(frozen=True, slots=True)
class Skipped:
    """For the driver: a step would not have been finite and was not taken; its members are refused."""

    version: int  # the server's, which stays
    clients: tuple[int, ...]  # without multiplicity, in order of arrival
    sessions: tuple[int, ...]  # aligned with `clients`


Steps = tuple[Step | Skipped, ...]


class Answer(NamedTuple):
    """What follows from an update: the receipt goes to the client, the steps are for the driver."""

    receipt: Receipt
    steps: Steps = ()

    @property
    def accepted(self) -> bool:
        return self.receipt.accepted
