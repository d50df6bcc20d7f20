"""What a driver needs of a network: whole messages between the server and its numbered clients, and who is reachable.

A message arrives whole, in order, at most once per connection, or not at all. What was under way when a connection
broke may be lost: the two ends find out when they greet each other again, and repeat what is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

Buffer = bytes | bytearray | memoryview


def _nothing_to_release() -> None:
    pass


@dataclass(frozen=True, slots=True)
class Connected:
    """The identity `client` is reachable (again)."""

    client: int


@dataclass(frozen=True, slots=True)
class Disconnected:
    """`gone`: whatever it was doing is lost, and it is not waited for."""

    client: int
    reason: str
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Arrived:
    """One whole message, which may be the memory map of a spooled file.

    `release` gives room and credit back: called once, when the message has been journalled.
    """

    client: int
    message: Buffer
    release: Callable[[], None] = _nothing_to_release


TransportEvent = Connected | Disconnected | Arrived


@dataclass(frozen=True, slots=True)
class Presence:
    """How a transport sees one client at this moment."""

    heard_s_ago: float | None = None  # its last byte; None: unknown
    is_silent: bool = False  # it should have been heard of by now
    is_suspended: bool = False


@runtime_checkable
class Observable(Protocol):
    """A transport that knows how its clients are; others tell only who came and went."""

    def presences(self) -> Mapping[int, Presence]: ...


class ServerTransport(Protocol):
    """Bytes between the server and its numbered clients."""

    rejected: Mapping[str, int]  # what was refused before it became an event, by reason

    async def next(self) -> TransportEvent:
        """Wait for the next event; RemoteError if there will be none, which ends the server."""
        ...

    def send(self, client: int, message: Sequence[Buffer]) -> None:
        """Queue one message, given in parts that are not copied; dropped if the client is not connected."""
        ...

    def disconnect(self, client: int, reason: str) -> None: ...

    async def close(self) -> None:
        """Send what is queued, as far as that is possible in a few seconds, and close every connection."""
        ...


class ClientTransport(Protocol):
    """The client's side: it connects outwards, and again for ever, with backoff and jitter.

    `client` in its events is its own number.
    """

    async def next(self) -> TransportEvent: ...

    def send(self, message: Sequence[Buffer]) -> None:
        """Queue one message; dropped while there is no connection."""
        ...

    async def close(self) -> None: ...
