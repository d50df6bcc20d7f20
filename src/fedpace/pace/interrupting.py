"""The server keeps its own rhythm and interrupts whom it draws (FAVANO, QuAFL)."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedpace.errors import ConfigError, require_count, require_flag, require_number
from fedpace.pace.crowd import Crowd, Draw
from fedpace.pace.protocol import Broadcast, Header, Interrupt, Interruptible, Order, Send, Verdict, WakeAt
from fedpace.pace.roll import Roll
from fedpace.pace.select import Selection, Uniform, require_enough


@dataclass(slots=True)
class InterruptingState:
    roll: Roll = field(default_factory=Roll)
    asked: int = 0  # choices made so far
    started: bool = False
    ticking: bool = False  # a timer is set
    due: bool = False  # a tick has come and nobody was interrupted for it yet
    restart: list[int] = field(default_factory=list)  # clients that get the newest model


@dataclass(frozen=True, slots=True)
class Interrupting:
    """Every `period_s` seconds interrupt `clients_per_round` distinct clients, step with their partial progress.

    Leconte et al. 2023 (FAVANO) and Zakerinia et al. 2022 (QuAFL, `averaging=True`: an interrupted client
    gets the model from before the step and averages it into its own, instead of restarting from the new one).
    The others go on undisturbed. Whoever comes back, or sends something unusable, starts from the newest model.
    `period_s=None` is the fastest client's whole cycle, where the driver knows it.
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

    def awaited(self, state: InterruptingState) -> int:
        return len(state.roll.draws)

    def arrived(
        self, header: Header, version: int, state: InterruptingState
    ) -> tuple[Verdict, InterruptingState]:
        count = state.roll.answer(header.client)
        if count and not self.averaging:
            state.restart.append(header.client)
        step = count > 0 and state.roll.close_if_complete()
        return Verdict(count, step, "" if count else "not interrupted"), state

    def lost(self, client: int, state: InterruptingState) -> tuple[bool, InterruptingState]:
        state.restart.append(client)
        state.roll.strike(client)
        return state.roll.close_if_complete(), state

    def joined(self, client: int, state: InterruptingState) -> InterruptingState:
        if state.started:
            state.restart.append(client)
        return state

    def woke(self, now: float, state: InterruptingState) -> tuple[bool, InterruptingState]:
        state.due, state.ticking = True, False
        return False, state

    def dispatch(
        self, version: int, now: float, crowd: Crowd, state: InterruptingState, draw: Draw
    ) -> tuple[tuple[Order, ...], InterruptingState]:
        orders: list[Order] = []
        if not state.started:
            state.started = True
            orders.append(Broadcast())
        if not state.roll.open:
            orders += [Send(client) for client in dict.fromkeys(state.restart) if client not in crowd.absent]
            state.restart = []
            if state.due and len(crowd):
                state.due = False
                chosen = self.select.choose(self.clients_per_round, state.asked, crowd, frozenset(), draw)
                state.asked += 1
                orders += [Interrupt(client) for client in state.roll.call(chosen)]
        if not state.ticking and not state.due and len(crowd):
            state.ticking = True
            orders.append(WakeAt(now + self._period(crowd)))
        return tuple(orders), state

    def _period(self, crowd: Crowd) -> float:
        if self.period_s is not None:
            return self.period_s
        if crowd.cycle_s is None:
            raise ConfigError(
                "server_period must be given in seconds where device speeds are unknown; got None"
            )
        return crowd.cycle_s
