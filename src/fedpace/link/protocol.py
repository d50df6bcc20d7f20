"""Stop 2: vector <-> exact bytes, up and down.

A *codec* turns a vector into one frame and back; it remembers nothing. A *link* is what one direction of
traffic does with codecs: it may remember (error memory, the value the receiver holds) and it stamps frames.
What the sender remembers changes only when the frame is acknowledged, so a lost frame corrupts nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np

from fedpace.vector import Layout, Vector


@runtime_checkable
class Codec(Protocol):
    """A map from a vector to the exact bytes that cross the link. `len(frame)` is the cost."""

    def bind(self, layout: Layout) -> Self:
        """The same codec working per tensor of `layout`; unbound it sees one flat vector."""
        ...

    def encode(self, v: Vector, rng: np.random.Generator) -> bytes:
        """One whole frame, header included; round = ref = 0, a link stamps them."""
        ...

    def decode(self, frame: bytes, size: int) -> Vector:
        """The vector, or FrameError for bytes that this codec would not have written."""
        ...


@dataclass(frozen=True, slots=True)
class Context:
    """What a link may use to judge: sent with the model, so both ends agree."""

    round: int  # server steps taken when the session was ordered
    clients_per_step: int = 1  # n: how many updates make a step
    step_norms: tuple[float, ...] = ()  # ||x_t - x_{t-1}||^2 of the last steps, newest first (LAG)


@runtime_checkable
class Uplink(Protocol):
    """One client's way to the server."""

    def init(self, size: int, dtype: np.dtype[Any]) -> Any:
        """What either end remembers before first contact; None if nothing ever."""
        ...

    def send(self, v: Vector, state: Any, context: Context, rng: np.random.Generator) -> tuple[bytes, Any]:
        """The frame, and the sender's state once the frame is acknowledged."""
        ...

    def receive(self, frame: bytes, state: Any, size: int) -> tuple[Vector, Any]:
        """What the server uses, and the receiver's next state. FrameError changes nothing."""
        ...

    def resync(self, state: Any) -> Any:
        """The sender's state after the receiver has answered RESYNC: the next frame builds on nothing."""
        ...


@runtime_checkable
class Downlink(Protocol):
    """The server's way to all clients."""

    @property
    def shared(self) -> bool:
        """Whether every client that retrieves version v reconstructs the same model."""
        ...

    def init(self, x: Vector, clients: int) -> Any:
        """The server's side before the first model is published."""
        ...

    def publish(self, x: Vector, version: int, state: Any, rng: np.random.Generator) -> Any:
        """A new model exists; called once per version, version 0 included."""
        ...

    def send(
        self, client: int, x: Vector, version: int, state: Any, rng: np.random.Generator
    ) -> tuple[bytes, Any]:
        """The frame for one client at the moment it retrieves model `x`, and the server's next state.

        The state that went in is spent: tables of clients are updated in place.
        """
        ...

    def forget(self, client: int, state: Any) -> Any:
        """A client has lost what it held (RESYNC): its next model is a first contact."""
        ...

    def seeds(self, client: int, state: Any) -> bool:
        """Whether this client is to make the initial model itself, from the run's seed, before it receives."""
        ...

    def seeded(self, x: Vector) -> Any:
        """What a client holds that has done so."""
        ...

    def receive(self, frame: bytes, held: Any, size: int) -> tuple[Vector, Any]:
        """Client side: the model to start from, and what the client holds then (None at first contact)."""
        ...
