"""Links: vector <-> exact bytes, up and down.

A *codec* turns a vector into one frame and back; it has no state. A *link* is what one direction of traffic does
with codecs: it may have state (error memory, the value the receiver holds) and it stamps frames.
The sender's state changes only when the frame is acknowledged, so a lost frame corrupts nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Protocol, Self, TypeGuard, TypeVar, runtime_checkable

import numpy as np

from fedpace.errors import ConfigError
from fedpace.link.wire.indices import Indices
from fedpace.vector import Layout, Vector

State = Any  # one link's state: only that link looks inside
LinkOrCodec = TypeVar("LinkOrCodec")


@runtime_checkable
class Codec(Protocol):
    """A map from a vector to the exact bytes that cross the link. `len(frame)` is the cost.

    A codec may say more of itself: `contraction(size)` and `omega(size)` are bounds that `fedpace.check` measures,
    `unbiased` that errors have mean zero and are independent between frames, and the answers of `ExactEntries` let a
    downlink set entries instead of adding to them.
    """

    def bind(self, layout: Layout) -> Self:
        """The same codec working per tensor of `layout`; unbound it sees one flat vector."""
        ...

    def encode(self, v: Vector, rng: np.random.Generator) -> bytes:
        """One whole frame, header included; round = ref = 0, a link stamps them."""
        ...

    def decode(self, frame: bytes, size: int) -> Vector:
        """The vector, or FrameError for bytes that this codec would not have written."""
        ...


@runtime_checkable
class Subtracts(Codec, Protocol):
    """A codec that need not make a vector of a frame to subtract it."""

    def subtract(self, frame: bytes, v: Vector) -> Vector:
        """v - decode(frame), written over `v`."""
        ...


@runtime_checkable
class ExactEntries(Codec, Protocol):
    """A codec that sends some entries of a vector unchanged and leaves the others at zero."""

    @property
    def ratio(self) -> float | None:
        """The share of the entries that a frame carries; None: all that are not zero."""
        ...

    @property
    def index(self) -> str:
        """The encoding of positions: "auto", or one of `fedpace.link.wire.indices.NAMES`."""
        ...

    def exact(self, dtype: np.dtype[np.floating]) -> bool:
        """Whether values of this type arrive unchanged."""
        ...

    def support(self, v: Vector) -> Indices:
        """The positions, ascending, of the entries that a frame of `v` carries."""
        ...


def sends_exactly(codec: Codec, dtype: np.dtype[np.floating]) -> TypeGuard[ExactEntries]:
    """Whether the codec sends entries of this type unchanged; one that does not say, does not."""
    exact = getattr(codec, "exact", None)
    return exact is not None and bool(exact(dtype))


def require_contractive(codec: Codec, what: str) -> None:
    """Refuse a codec that says it does not contract: its errors would accumulate."""
    claim = getattr(codec, "contraction", None)
    if claim is not None and claim(sum(getattr(codec, "groups", ())) or 2) is None:
        raise ConfigError(f"{what} must contract; got {codec!r}, which is unbiased instead")


def is_unbiased(codec: Codec) -> bool:
    """Whether errors average out over the clients of a step; of a codec that does not say, they do not."""
    return bool(getattr(codec, "unbiased", False))


def bound(link: LinkOrCodec, layout: Layout) -> LinkOrCodec:
    """The same codec, or link with every codec in it, bound to `layout`."""
    if isinstance(link, Codec):
        return link.bind(layout)
    if not is_dataclass(link) or isinstance(link, type):
        return link
    parts = {f.name: getattr(link, f.name) for f in fields(link) if f.name in ("codec", "link")}
    return replace(link, **{name: bound(part, layout) for name, part in parts.items()})


@dataclass(frozen=True, slots=True)
class Context:
    """What a lazy rule may compare with: sent with the model, so that both ends agree."""

    round: int  # server steps taken when the session was ordered
    clients_per_step: int = 1  # n: how many updates make a step
    step_norms: tuple[float, ...] = ()  # ||x_t - x_{t-1}||^2 of the last steps, newest first (LAG)


@runtime_checkable
class Uplink(Protocol):
    """From one client to the server."""

    def init(self, size: int, dtype: np.dtype[np.floating]) -> State:
        """The state of either end before first contact; None for a link without state."""
        ...

    def send(
        self, v: Vector, state: State, context: Context, rng: np.random.Generator
    ) -> tuple[bytes, State]:
        """The frame, and the sender's state once the frame is acknowledged."""
        ...

    def receive(self, frame: bytes, state: State, size: int) -> tuple[Vector, State]:
        """The vector that the server uses, and the receiver's next state. FrameError changes nothing."""
        ...

    def resync(self, state: State) -> State:
        """The sender's state after the receiver has answered RESYNC: the next frame builds on nothing."""
        ...


@runtime_checkable
class Downlink(Protocol):
    """From the server to all clients."""

    @property
    def shared(self) -> bool:
        """Whether every client that retrieves version v reconstructs the same model."""
        ...

    def init(self, x: Vector, clients: int) -> State:
        """The server's state before the first model is published."""
        ...

    def publish(self, x: Vector, version: int, state: State, rng: np.random.Generator) -> State:
        """A new model exists; called once per version, version 0 included."""
        ...

    def send(
        self, client: int, x: Vector, version: int, state: State, rng: np.random.Generator
    ) -> tuple[bytes, State]:
        """The frame for one client at the moment it retrieves model `x`, and the server's next state.

        The state passed in must not be used again: tables of clients are updated in place.
        """
        ...

    def forget(self, client: int, state: State) -> State:
        """A client has lost its model (RESYNC): its next one is a first contact."""
        ...

    def seeds(self, client: int, state: State) -> bool:
        """Whether this client first makes the initial model itself, from the run's seed."""
        ...

    def seeded(self, x: Vector) -> State:
        """The state of a client that has done so."""
        ...

    def receive(self, frame: bytes, held: State, size: int) -> tuple[Vector, State]:
        """Client side: the model to start from, and the client's next state (None before first contact)."""
        ...
