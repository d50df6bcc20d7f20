"""The downlink of the published algorithm: the model itself is compressed, with an error memory per client."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

import numpy as np

from fedpace.errors import require, require_count
from fedpace.link.codecs.dense import decode_dense, encode_dense
from fedpace.link.downlinks.first_contact import FirstModelSent
from fedpace.link.protocol import Codec, Context
from fedpace.link.uplinks.error_feedback import ErrorFeedback
from fedpace.link.uplinks.lazy import Held, Lazy
from fedpace.link.wire import frame as wire
from fedpace.link.wire.frame import Kind, Phantom, ResyncError
from fedpace.vector import Vector

LATER = ("reference", "over_n", "clients_per_step", "max_staleness")  # fields that came with version 0.2


@dataclass(frozen=True, slots=True)
class Contact:
    """The state of either end after some frames; the count reveals a lost one."""

    frames: int
    held: Held  # the server's has E_i, the client's only the last value


@dataclass(frozen=True, slots=True)
class CompressedModelState:
    clients: dict[int, Contact] = field(default_factory=dict)  # of the clients heard from
    everybody: int = 1  # m: the clients of the run


@dataclass(frozen=True, slots=True, repr=False)
class CompressedModel(FirstModelSent):
    """Compress x_t + E_i for client i, apply the lazy rule as an uplink does; E_i becomes the undelivered rest.

    Wire: ref is the number of frames that this client was sent before, so that it notices a lost one.

    "Bidirectional communication-efficient non-convex adaptive federated learning", Algorithm 2. `first`:
    "dense" sends the whole model at first contact, "zero" (as printed) the compressed model. `reference`, `over_n`,
    `max_staleness`: as in `Lazy`, "raw" being Example 3 to the letter; n is `clients_per_step`, by default all clients.
    For comparison only: with a sparsifier the client's model is further from x_t than zero is, since
    each coordinate arrives every d/k contacts with d/k times its size; with AA it starts from twice the
    model. `Difference` is the link to use.
    """

    codec: Codec
    rule: str = "nla"
    tau: float = 0.0
    first: str = "dense"
    reference: str = "held"
    over_n: bool = False
    clients_per_step: int | None = None
    max_staleness: int | None = None

    def __post_init__(self) -> None:
        require(self.rule in ("nla", "aa"), "CompressedModel.rule", self.rule, "nla or aa")
        require(self.first in ("dense", "zero"), "CompressedModel.first", self.first, "dense or zero")
        if self.clients_per_step is not None:
            require_count(self.clients_per_step, "CompressedModel.clients_per_step")
        self._link()

    def __repr__(self) -> str:
        """Like a dataclass's, without the last fields where nothing was said of them: names of finished runs stay."""
        said = [f for f in fields(self) if f.name not in LATER or getattr(self, f.name) != f.default]
        return f"CompressedModel({', '.join(f'{f.name}={getattr(self, f.name)!r}' for f in said)})"

    @property
    def shared(self) -> bool:
        return False

    def init(self, x: Vector, clients: int) -> CompressedModelState:
        return CompressedModelState(everybody=clients)

    def publish(
        self, x: Vector, version: int, state: CompressedModelState, rng: np.random.Generator
    ) -> CompressedModelState:
        return state

    def send(
        self, client: int, x: Vector, version: int, state: CompressedModelState, rng: np.random.Generator
    ) -> tuple[bytes, CompressedModelState]:
        past = state.clients.get(client)
        if past is None and self.first == "dense":
            frame = encode_dense(x, round=version)
            state.clients[client] = Contact(1, _holding(frame, x, version))
            return frame, state
        link, count = self._link(), 0 if past is None else past.frames
        before = link.init(x.size, x.dtype) if past is None else past.held
        context = Context(version, self.clients_per_step or state.everybody)
        frame, held = link.send(x, before, context, rng)
        state.clients[client] = Contact(count + 1, held)
        return frame if isinstance(frame, Phantom) else wire.stamp(frame, round=version, ref=count), state

    def forget(self, client: int, state: CompressedModelState) -> CompressedModelState:
        state.clients.pop(client, None)
        return state

    def receive(self, frame: bytes, held: Contact | None, size: int) -> tuple[Vector, Contact]:
        header = wire.peek(frame)
        if self.first == "dense" and header.kind is Kind.DENSE and not header.ref:
            x = decode_dense(frame, size)
            wire.refuse_flags(header, wire.ADD_PREV | wire.DIFF)
            return x, Contact(1, _holding(frame, x))
        count = 0 if held is None else held.frames
        if isinstance(frame, Phantom) and held is not None:
            return frame.value, Contact(count + 1, held.held)
        if header.ref != count:
            wire.check(frame)  # damage is the better explanation
            raise ResyncError(f"{header.kind.name} is frame {header.ref + 1} to this client; it has {count}")
        link = self._link()
        last = link.init(size, np.dtype(np.float32)) if held is None else held.held
        x, last = link.receive(frame, replace(last, version=count), size)
        return x, Contact(count + 1, last)

    def _link(self) -> Lazy:
        memory = ErrorFeedback(self.codec)
        return Lazy(self.rule, self.tau, self.max_staleness, memory, self.reference, self.over_n)


def _holding(frame: bytes, x: Vector, sent_round: int = 0) -> Held:
    nothing = np.empty_like(x, shape=0)
    return Held(memory=nothing, raw=nothing, version=1, held=frame, sent_round=sent_round)
