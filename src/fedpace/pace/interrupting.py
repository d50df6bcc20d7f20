"""The server steps at its own period and interrupts the clients it draws (FAVANO, QuAFL)."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedpace.errors import ConfigError, require_count, require_flag, require_number
from fedpace.pace.available import Available, Draw
from fedpace.pace.cohort import Cohort, WaitsForCohort
from fedpace.pace.protocol import (
    Broadcast,
    Decision,
    Interrupt,
    Interruptible,
    Order,
    Send,
    UpdateHeader,
    WakeAt,
)
from fedpace.pace.select import Selection, Uniform, require_enough


@dataclass(slots=True)
class InterruptingState:
    cohort: Cohort = field(default_factory=Cohort)
    asked: int = 0  # choices made so far
    started: bool = False
    ticking: bool = False  # a timer is set
    due: bool = False  # a tick has come and no client was interrupted for it yet
    restart: dict[int, None] = field(default_factory=dict)  # clients that get the newest model, in order


@dataclass(frozen=True, slots=True)
class Interrupting(WaitsForCohort[InterruptingState]):
    """Every `period_s` seconds interrupt `clients_per_round` distinct clients, step with their partial progress.

    Leconte et al. 2023 (FAVANO) and Zakerinia et al. 2022 (QuAFL, `averaging=True`: an interrupted client
    gets the model from before the step and averages it into its own, instead of restarting from the new one).
    The others continue undisturbed. A client that returns, or sends an unusable update, starts from the newest model.
    `period_s=None` is the fastest client's whole cycle; a driver that knows it puts it here before it starts.
    """

    clients_per_round: int = 10
    period_s: float | None = None
    averaging: bool = False
    select: Selection = Uniform()

    keeps = 1

    def __post_init__(self) -> None:
        require_count(self.clients_per_round, "clients_per_round")
        if self.period_s is not None:
            require_number(self.period_s, "server_period", above=0, allowed="> 0 seconds")
        require_flag(self.averaging, "Interrupting.averaging")

    @property
    def client(self) -> Interruptible:
        return Interruptible(self.clients_per_round if self.averaging else None)

    @property
    def per_step(self) -> int | None:
        return self.clients_per_round

    def init(self, clients: int) -> InterruptingState:
        require_enough(self.select, self.clients_per_round, clients)
        return InterruptingState()

    def expects(self, update: UpdateHeader, version: int, state: InterruptingState) -> str:
        return "" if state.cohort.waits_for(update.client) else "not interrupted"

    def arrived(self, update: UpdateHeader, version: int, state: InterruptingState) -> Decision:
        if not self.averaging:
            self._restart(update.client, state)
        return WaitsForCohort.arrived(self, update, version, state)

    def lost(self, client: int, state: InterruptingState) -> bool:
        self._restart(client, state)
        return WaitsForCohort.lost(self, client, state)

    def joined(self, client: int, state: InterruptingState) -> None:
        if state.started:
            self._restart(client, state)

    def woke(self, now: float, state: InterruptingState) -> bool:
        state.due, state.ticking = True, False
        return False

    def dispatch(
        self, version: int, now: float, available: Available, state: InterruptingState, draw: Draw
    ) -> tuple[Order, ...]:
        orders: list[Order] = []
        if not state.started:
            state.started = True
            orders.append(Broadcast())
        if not state.cohort.open:
            orders += [Send(client) for client in state.restart if client not in available.absent]
            state.restart = {}
            if state.due and len(available):
                state.due = False
                chosen = self.select.choose(self.clients_per_round, state.asked, available, frozenset(), draw)
                state.asked += 1
                orders += [Interrupt(client) for client in state.cohort.call(chosen)]
        if not state.ticking and not state.due and len(available):
            state.ticking = True
            orders.append(WakeAt(now + self._period()))
        return tuple(orders)

    @staticmethod
    def _restart(client: int, state: InterruptingState) -> None:
        state.restart[client] = None

    def _period(self) -> float:
        if self.period_s is None:
            raise ConfigError(
                "server_period must be given in seconds where device speeds are unknown; got None"
            )
        return self.period_s
