"""A buffer of updates from a limited number of active clients (FedBuff, CA2FL)."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedpace.errors import ConfigError, require, require_count
from fedpace.pace.available import Available, Draw
from fedpace.pace.bounds import require_attainable
from fedpace.pace.protocol import Decision, OnDemand, Order, Send, UpdateHeader, WakeAt
from fedpace.pace.select import Selection, Uniform


@dataclass(slots=True)
class BufferedState:
    refills: list[int]  # places to fill at the next dispatch, one entry for each choice to make
    short: int = 0  # places without a client: they wait for the next refill, or for a client to join
    active: set[int] = field(default_factory=set)  # training, or (batch) delivered into the open buffer
    filled: int = 0  # updates in the open buffer
    delivered: set[int] = field(default_factory=set)  # their clients, which wait for the step (batch)
    asked: int = 0  # choices made so far

    @property
    def free(self) -> int:
        return sum(self.refills) + self.short

    def refill(self, places: int) -> None:
        """Make one choice for these places."""
        self.refills.append(places + self.short)
        self.short = 0


@dataclass(frozen=True, slots=True)
class Buffered:
    """`concurrency` active clients; a server step whenever `buffer` updates have come in.

    Nguyen et al. 2022 (FedBuff) and Wang et al. (CA2FL), Algorithm 2. `dispatch="batch"` replaces the `buffer`
    clients of a step together, after it, from all idle clients (CA2FL's rule: no client twice in one
    buffer). `"immediate"` refills a place as soon as it is free (FedBuff's own rule); a client may then deliver
    twice into one buffer, and both count. An update older than `max_staleness` steps is refused, its place freed.
    `concurrency=None`: all clients are active. When clients have left and no idle one remains, a part-filled
    batch makes a step.
    """

    buffer: int = 10
    concurrency: int | None = None
    dispatch_mode: str = "batch"
    select: Selection = Uniform()
    max_staleness: int | None = None

    client = OnDemand()
    keeps = 1

    def __post_init__(self) -> None:
        require_count(self.buffer, "buffer")
        if self.concurrency is not None:
            require_count(self.concurrency, "concurrency")
        require(
            self.dispatch_mode in ("batch", "immediate"), "dispatch", self.dispatch_mode, "batch or immediate"
        )
        if self.max_staleness is not None:
            require_count(self.max_staleness, "max_staleness", low=0)
        if self.dispatch_mode == "batch" and self.concurrency is not None and self.buffer > self.concurrency:
            raise ConfigError(
                f"buffer must be <= concurrency ({self.concurrency}) with batch dispatch, "
                f"where no client is replaced before the step; got {self.buffer}"
            )

    @property
    def per_step(self) -> int | None:
        return self.buffer

    def init(self, clients: int) -> BufferedState:
        at_once = clients if self.concurrency is None else self.concurrency
        require(at_once <= clients, "concurrency", at_once, f"<= the number of clients ({clients})")
        require_attainable(self.buffer, "buffer", clients)
        if self.dispatch_mode == "batch":
            require(self.buffer <= at_once, "buffer", self.buffer, f"<= concurrency ({at_once})")
        return BufferedState([at_once])

    def expects(self, update: UpdateHeader, version: int, state: BufferedState) -> str:
        waited_for = update.client in state.active and update.client not in state.delivered
        return "" if waited_for else "not expected"

    def arrived(self, update: UpdateHeader, version: int, state: BufferedState) -> Decision:
        if self.max_staleness is not None and version - update.version > self.max_staleness:
            self._release(update.client, state)
            return Decision(0, reason=f"staler than {self.max_staleness} steps")
        state.filled += 1
        if self._batch:
            state.delivered.add(update.client)
        else:
            self._release(update.client, state)
        full = state.filled == self.buffer
        if full:
            self._empty(state)
        return Decision(1, step=full)

    def lost(self, client: int, state: BufferedState) -> bool:
        if client in state.active and client not in state.delivered:
            self._release(client, state)
        return False

    def joined(self, client: int, state: BufferedState) -> None:
        if state.short:
            state.refill(0)

    def woke(self, now: float, state: BufferedState) -> bool:
        step = state.filled > 0
        self._empty(state)
        return step

    def dispatch(
        self, version: int, now: float, available: Available, state: BufferedState, draw: Draw
    ) -> tuple[Order, ...]:
        orders: list[Order] = []
        while state.refills and len(available):
            orders += [Send(client) for client in self._fill(state.refills.pop(0), available, state, draw)]
        nobody_works = len(state.active) == len(state.delivered)
        if state.filled and nobody_works and len(available) and not orders:
            orders.append(WakeAt(now))
        return tuple(orders)

    def _fill(self, places: int, available: Available, state: BufferedState, draw: Draw) -> list[int]:
        chosen = self.select.choose(places, state.asked, available, state.active, draw)
        require(len(set(chosen)) == len(chosen), "clients to activate", chosen, "distinct")
        require(len(chosen) <= places, "clients to activate", chosen, f"at most {places}")
        state.asked += 1
        state.short += places - len(chosen)
        state.active.update(chosen)
        return chosen

    @property
    def _batch(self) -> bool:
        return self.dispatch_mode == "batch"

    def _empty(self, state: BufferedState) -> None:
        """The step's clients are free, and replaced by one choice (batch)."""
        if state.delivered:
            state.active -= state.delivered
            state.refill(len(state.delivered))
        state.filled, state.delivered = 0, set()

    @staticmethod
    def _release(client: int, state: BufferedState) -> None:
        state.active.discard(client)
        state.refill(1)
