"""The paper's downlink as printed: the model itself is compressed, with an error memory per client."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedpace.errors import require
from fedpace.link import frame as wire
from fedpace.link.dense import decode_dense, encode_dense
from fedpace.link.error_feedback import ErrorFeedback
from fedpace.link.frame import Kind
from fedpace.link.lazy import Held, Lazy
from fedpace.link.protocol import Codec, Context
from fedpace.vector import Vector


@dataclass(frozen=True, slots=True)
class LiteralState:
    clients: dict[int, Held] = field(default_factory=dict)  # E_i and the last value sent, once heard from


@dataclass(frozen=True, slots=True)
class Literal:
    """Compress x_t + E_i for client i, judge it as an uplink would, E_i becomes what was not delivered.

    "Bidirectional communication-efficient non-convex adaptive federated learning", Algorithm 2. `first`:
    "dense" sends the whole model at first contact, "zero" (as printed) what the codec makes of it.
    Kept for comparison only: with a sparsifier the client's model is further from x_t than zero is, since
    each coordinate arrives every d/k contacts with d/k times its size; with AA it starts from twice the
    model. `Difference` is the link to use.
    """

    codec: Codec
    rule: str = "nla"
    tau: float = 0.0
    first: str = "dense"

    def __post_init__(self) -> None:
        require(self.rule in ("nla", "aa"), "Literal.rule", self.rule, "nla or aa")
        require(self.first in ("dense", "zero"), "Literal.first", self.first, "dense or zero")
        self._link()

    @property
    def shared(self) -> bool:
        return False

    def init(self, x: Vector, clients: int) -> LiteralState:
        return LiteralState()

    def publish(self, x: Vector, version: int, state: LiteralState, rng: np.random.Generator) -> LiteralState:
        return state

    def send(
        self, client: int, x: Vector, version: int, state: LiteralState, rng: np.random.Generator
    ) -> tuple[bytes, LiteralState]:
        held = state.clients.get(client)
        if held is None and self.first == "dense":
            frame = encode_dense(x, round=version)
            state.clients[client] = _holding(frame, x)
            return frame, state
        link = self._link()
        before = link.init(x.size, x.dtype) if held is None else held
        frame, state.clients[client] = link.send(x, before, Context(version), rng)
        return frame, state

    def seeds(self, client: int, state: Any) -> bool:
        return False

    def seeded(self, x: Vector) -> None:
        return None

    def forget(self, client: int, state: LiteralState) -> LiteralState:
        state.clients.pop(client, None)
        return state

    def receive(self, frame: bytes, held: Held | None, size: int) -> tuple[Vector, Held]:
        header = wire.peek(frame)
        if self.first == "dense" and header.kind is Kind.DENSE and not header.ref:
            x = decode_dense(frame, size)
            wire.refuse_flags(header, wire.ADD_PREV | wire.DIFF)
            return x, _holding(frame, x)
        link = self._link()
        return link.receive(frame, held or link.init(size, np.dtype(np.float32)), size)

    def _link(self) -> Lazy:
        return Lazy(self.rule, self.tau, max_staleness=None, link=ErrorFeedback(self.codec))


def _holding(frame: bytes, x: Vector) -> Held:
    nothing = np.empty_like(x, shape=0)
    return Held(memory=nothing, raw=nothing, version=1, held=frame)
