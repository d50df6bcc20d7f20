"""Everybody trains all the time; the first n finished updates make a step (DeFedAvg-IID, AsySG)."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedpace.errors import require_count
from fedpace.pace.crowd import Crowd, Draw
from fedpace.pace.protocol import Broadcast, Continuous, Header, Order, Verdict


@dataclass(slots=True)
class ArrivalsState:
    members: list[int] = field(default_factory=list)  # clients of the open buffer, in order of arrival
    published: int = -1  # newest version that was broadcast


@dataclass(frozen=True, slots=True)
class Arrivals:
    """The first `buffer` updates to finish, from anybody, make a step; the new model goes to everybody.

    DeFedAvg-IID, Algorithm 2. A client may deliver twice into one buffer (from an older version and from the
    current one): both count, unless `distinct`, where the second waits for the next step.
    """

    buffer: int = 10
    reuse_model: bool = False
    distinct: bool = False

    keeps = 1

    def __post_init__(self) -> None:
        require_count(self.buffer, "buffer")

    @property
    def client(self) -> Continuous:
        return Continuous(polled=False, reuse_model=self.reuse_model)

    @property
    def per_step(self) -> int | None:
        return self.buffer

    def init(self, clients: int) -> ArrivalsState:
        return ArrivalsState()

    def arrived(self, header: Header, version: int, state: ArrivalsState) -> tuple[Verdict, ArrivalsState]:
        if self.distinct and header.client in state.members:
            return Verdict(None, reason="second of this client"), state
        state.members.append(header.client)
        full = len(state.members) == self.buffer
        if full:
            state.members = []
        return Verdict(1, step=full), state

    def lost(self, client: int, state: ArrivalsState) -> tuple[bool, ArrivalsState]:
        return False, state

    def joined(self, client: int, state: ArrivalsState) -> ArrivalsState:
        return state

    def woke(self, now: float, state: ArrivalsState) -> tuple[bool, ArrivalsState]:
        return False, state

    def dispatch(
        self, version: int, now: float, crowd: Crowd, state: ArrivalsState, draw: Draw
    ) -> tuple[tuple[Order, ...], ArrivalsState]:
        if state.published == version:
            return (), state
        state.published = version
        return (Broadcast(),), state
