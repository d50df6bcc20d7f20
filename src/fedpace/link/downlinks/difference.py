"""The compressed difference between the server's model and the client's."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from fedpace.errors import require, require_count, require_number
from fedpace.link.codecs.dense import encode_dense
from fedpace.link.downlinks import replica, shared_reference
from fedpace.link.downlinks.replica import Replica
from fedpace.link.downlinks.shared_reference import SharedState
from fedpace.link.protocol import Codec, ExactEntries, require_contractive, sends_exactly
from fedpace.link.wire import frame as wire
from fedpace.link.wire.frame import Kind
from fedpace.vector import Vector, freeze

ROOM_BYTES = 1 << 30  # memory that "auto" spends on a model per client
FIRST = 1  # the version of the initial model
REFERENCES = ("per_client", "shared", "auto")


@dataclass(frozen=True, slots=True)
class PerClientState:
    clients: dict[int, Replica] = field(default_factory=dict)  # h_i of the clients heard from
    initial: Vector | None = None  # the model that clients make themselves, with first="seed"


@dataclass(frozen=True, slots=True)
class Difference:
    """Compress r = x_t - h, where h is the client's model; the rest of r is the error memory.

    EF21-P (Gruntkowska, Tyurin & Richtarik 2023) and, for top-k, its exact form: the k entries where r is
    largest are *set* to their values in x_t, so that h agrees with x_t to the bit wherever it was sent, a
    frame may be applied twice, and a frozen model is reached after d/k contacts. Other codecs, and values
    that are rounded on the way, are added (DIFF). SKIP where h = x_t or ||r|| <= tau ||h||. First contact:
    the whole model; it also goes out whole wherever that is shorter.

    `reference`: "per_client", one h for each client heard from, in the server's memory; "shared", one public
    model for all and the changes of the last `ring` publications (default: as many as make two models'
    worth), of which a client gets those it missed; "auto", per client up to a gibibyte.
    `first`: "dense" sends the whole model at first contact; "seed" eight bytes from which the client makes the
    initial model itself, and then the difference to it.
    """

    codec: Codec
    tau: float = 0.0
    reference: str = "per_client"
    ring: int | None = None
    first: str = "dense"

    def __post_init__(self) -> None:
        require_contractive(self.codec, "Difference.codec")
        require_number(self.tau, "Difference.tau", low=0, below=1, allowed="in [0, 1)")
        require(self.reference in REFERENCES, "Difference.reference", self.reference, " or ".join(REFERENCES))
        if self.ring is not None:
            require_count(self.ring, "Difference.ring")
        require(self.first in ("dense", "seed"), "Difference.first", self.first, "dense or seed")

    @property
    def shared(self) -> bool:
        """False also for a shared reference: the frame depends on the version a client holds."""
        return False

    def init(self, x: Vector, clients: int) -> PerClientState | SharedState:
        fits = clients * x.nbytes <= ROOM_BYTES
        if self.reference == "per_client" or (self.reference == "auto" and fits):
            return PerClientState(initial=x if self.first == "seed" else None)
        return SharedState(0, freeze(x.copy()) if x.flags.writeable else x)

    def publish(
        self, x: Vector, version: int, state: PerClientState | SharedState, rng: np.random.Generator
    ) -> PerClientState | SharedState:
        if isinstance(state, PerClientState):
            return state
        return shared_reference.publish(self.codec, self.tau, self._ring(), x, version, state, rng)

    def send(
        self,
        client: int,
        x: Vector,
        version: int,
        state: PerClientState | SharedState,
        rng: np.random.Generator,
    ) -> tuple[bytes, PerClientState | SharedState]:
        if isinstance(state, SharedState):
            if self.first == "seed":
                state.clients.setdefault(client, FIRST)
            return shared_reference.send(self.codec, client, x, version, state)
        held = state.clients.get(client)
        if held is None and state.initial is not None:
            held = self.seeded(state.initial)
        frame, state.clients[client] = self._advance(x, version, held, rng)
        return frame, state

    def seeds(self, client: int, state: PerClientState | SharedState) -> bool:
        return self.first == "seed" and client not in state.clients

    def seeded(self, x: Vector) -> Replica:
        """The state of a client that has made the initial model itself."""
        return Replica(FIRST, x)

    def forget(self, client: int, state: PerClientState | SharedState) -> PerClientState | SharedState:
        state.clients.pop(client, None)
        return state

    def public(self, state: PerClientState | SharedState) -> Vector | None:
        """The model of all clients that are up to date, where there is one: a simulation stores it once for them."""
        return state.model if isinstance(state, SharedState) else None

    def receive(self, frame: bytes, held: Replica | None, size: int) -> tuple[Vector, Replica]:
        return replica.receive(self.codec, frame, held, size)

    def _advance(
        self, x: Vector, version: int, held: Replica | None, rng: np.random.Generator
    ) -> tuple[bytes, Replica]:
        """The frame for a client that holds `held`, and its state afterwards."""
        has = 0 if held is None else held.version
        if held is not None and replica.near(x, held.model, self.tau):
            return wire.build(Kind.SKIP, round=version, ref=has), held
        change = b"" if held is None else self._change(x, held.model, rng)
        if not change or len(change) >= wire.HEADER_BYTES + x.nbytes:
            change = encode_dense(x)
        frame = wire.stamp(change, round=version, ref=has)
        _, after = self.receive(frame, held, x.size)
        return frame, after

    def _change(self, x: Vector, h: Vector, rng: np.random.Generator) -> bytes:
        r = x - h
        if sends_exactly(self.codec, x.dtype):
            return replica.set_frame(x, self.codec.support(r), self.codec.index)
        return wire.stamp(self.codec.encode(r, rng), round=0, flags=wire.DIFF)

    def _ring(self) -> int:
        if self.ring is not None:
            return self.ring
        ratio = self.codec.ratio if isinstance(self.codec, ExactEntries) else None
        return 1 if ratio is None else math.ceil(2 / ratio)
