"""A step on every arrival (FedAsync)."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedpace.pace.available import Available, Draw
from fedpace.pace.buffered import Buffered, BufferedState
from fedpace.pace.protocol import Decision, OnDemand, Order, UpdateHeader
from fedpace.pace.select import Selection, Uniform


@dataclass(frozen=True, slots=True)
class Immediate:
    """`concurrency` active clients; each arrival is a server step, and its place is refilled at once.

    Xie et al. 2019 (FedAsync): a buffer of one.
    """

    concurrency: int | None = None
    select: Selection = Uniform()
    max_staleness: int | None = None
    _buffered: Buffered = field(init=False, repr=False, compare=False)

    client = OnDemand()
    keeps = 1
    per_step = 1

    def __post_init__(self) -> None:
        rule = Buffered(1, self.concurrency, "immediate", self.select, self.max_staleness)
        object.__setattr__(self, "_buffered", rule)

    def init(self, clients: int) -> BufferedState:
        return self._buffered.init(clients)

    def expects(self, update: UpdateHeader, version: int, state: BufferedState) -> str:
        return self._buffered.expects(update, version, state)

    def arrived(self, update: UpdateHeader, version: int, state: BufferedState) -> Decision:
        return self._buffered.arrived(update, version, state)

    def lost(self, client: int, state: BufferedState) -> bool:
        return self._buffered.lost(client, state)

    def joined(self, client: int, state: BufferedState) -> None:
        self._buffered.joined(client, state)

    def woke(self, now: float, state: BufferedState) -> bool:
        return False

    def dispatch(
        self, version: int, now: float, available: Available, state: BufferedState, draw: Draw
    ) -> tuple[Order, ...]:
        return self._buffered.dispatch(version, now, available, state, draw)
