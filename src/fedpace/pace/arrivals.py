"""All clients train continuously; the first n finished updates make a step (DeFedAvg-IID, AsySG)."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedpace.errors import require, require_count, require_flag
from fedpace.pace.available import Available, Draw
from fedpace.pace.bounds import require_attainable
from fedpace.pace.protocol import Broadcast, Continuous, Decision, Order, UpdateHeader, WakeAt


@dataclass(slots=True)
class ArrivalsState:
    present: int  # available clients
    members: list[int] = field(default_factory=list)  # clients of the open buffer, in order of arrival
    published: int = -1  # newest version that was broadcast


@dataclass(frozen=True, slots=True)
class Arrivals:
    """The first `buffer` updates to finish, from any clients, make a step; the new model is broadcast.

    DeFedAvg-IID, Algorithm 2. A client may deliver twice into one buffer (from an older version and from the
    current one): both count, unless `distinct`, where the second waits for the next step. With fewer than
    `buffer` available clients, one update of each of them makes a step: no other comes before the next model.
    """

    buffer: int = 10
    reuse_model: bool = False
    distinct: bool = False

    keeps = 1

    def __post_init__(self) -> None:
        require_count(self.buffer, "buffer")
        require_flag(self.reuse_model, "reuse_model")
        require_flag(self.distinct, "distinct")
        piles_up = self.distinct and self.reuse_model
        require(
            not piles_up, "distinct", True, "False with reuse_model, where a fast client's updates pile up"
        )

    @property
    def client(self) -> Continuous:
        return Continuous(polled=False, reuse_model=self.reuse_model)

    @property
    def per_step(self) -> int | None:
        return self.buffer

    def init(self, clients: int) -> ArrivalsState:
        allowed = f"<= the number of clients ({clients}), which train on each model once"
        require(self.reuse_model or self.buffer <= clients, "buffer", self.buffer, allowed)
        require_attainable(self.buffer, "buffer", clients)
        return ArrivalsState(present=clients)

    def expects(self, update: UpdateHeader, version: int, state: ArrivalsState) -> str:
        return ""

    def arrived(self, update: UpdateHeader, version: int, state: ArrivalsState) -> Decision:
        if self.distinct and update.client in state.members:
            return Decision(None, reason="second of this client")
        state.members.append(update.client)
        return Decision(1, step=self._close_if_full(state))

    def lost(self, client: int, state: ArrivalsState) -> bool:
        return False

    def joined(self, client: int, state: ArrivalsState) -> None:
        pass

    def woke(self, now: float, state: ArrivalsState) -> bool:
        return self._close_if_full(state)

    def dispatch(
        self, version: int, now: float, available: Available, state: ArrivalsState, draw: Draw
    ) -> tuple[Order, ...]:
        state.present = len(available)
        orders: list[Order] = []
        if state.published != version:
            state.published = version
            orders.append(Broadcast())
        if self._full(state):  # by a client that left
            orders.append(WakeAt(now))
        return tuple(orders)

    def _full(self, state: ArrivalsState) -> bool:
        wanted = self.buffer if self.reuse_model else min(self.buffer, state.present)
        return bool(state.members) and 0 < wanted <= len(state.members)

    def _close_if_full(self, state: ArrivalsState) -> bool:
        full = self._full(state)
        if full:
            state.members = []
        return full
