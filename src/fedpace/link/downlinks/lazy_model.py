"""LAG-PS: the server sends a client its model only when it has moved enough since the client's last one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fedpace.errors import ConfigError, require_count, require_number
from fedpace.link.codecs.dense import Dense, encode_dense
from fedpace.link.downlinks import replica
from fedpace.link.downlinks.first_contact import FirstModelSent
from fedpace.link.downlinks.replica import Replica
from fedpace.link.uplinks import thresholds
from fedpace.link.wire import frame as wire
from fedpace.link.wire.frame import Kind
from fedpace.vector import Vector, settle


@dataclass(frozen=True, slots=True)
class LazyModelState:
    last: Vector  # the newest model
    frame: bytes = b""  # and its frame, the same for all that are sent it
    step_norms: tuple[float, ...] = ()  # of the last steps, newest first
    clients: dict[int, Replica] = field(default_factory=dict)  # the model each client heard from has


@dataclass(frozen=True, slots=True)
class LazyModel(FirstModelSent):
    """SKIP while lipschitz^2 ||x_t - h_i||^2 <= tau^2 mean of the last R squared steps; else the whole model.

    Chen, Giannakis, Sun & Yin 2018, LAG-PS (equation 2 of "Bidirectional communication-efficient non-convex adaptive
    federated learning"). h_i is the model that client i was last sent. A skipped client trains from h_i again:
    with full batches its update is the one the server holds, so that it need not be sent nor, outside a
    simulation, computed. `lipschitz` is client_lr K L_i, one number or one per client: how much faster than the model
    an update can move. With it tau = 1 is the rule with xi = 1/R, as in `Lazy("lag")`.
    Departures: `max_staleness`, the rounds after which a model is sent in any case; None: no limit, as in the paper.
    """

    tau: float = 1.0
    lipschitz: float | Sequence[float] = 1.0
    max_staleness: int | None = None
    past_steps: int = 10  # R

    def __post_init__(self) -> None:
        settle(self)
        require_number(self.tau, "LazyModel.tau", low=0, below=math.inf, allowed=">= 0")
        for bound in self.lipschitz if isinstance(self.lipschitz, tuple) else (self.lipschitz,):
            require_number(bound, "LazyModel.lipschitz", above=0, below=math.inf, allowed="> 0")
        if self.max_staleness is not None:
            require_count(self.max_staleness, "LazyModel.max_staleness")
        require_count(self.past_steps, "LazyModel.past_steps")

    @property
    def shared(self) -> bool:
        return False

    def init(self, x: Vector, clients: int) -> LazyModelState:
        if isinstance(self.lipschitz, tuple) and len(self.lipschitz) != clients:
            given = len(self.lipschitz)
            raise ConfigError(
                f"LazyModel.lipschitz must be one number, or {clients}, one per client; got {given}"
            )
        return LazyModelState(x)

    def publish(
        self, x: Vector, version: int, state: LazyModelState, rng: np.random.Generator
    ) -> LazyModelState:
        moved = (thresholds.squared_distance(x, state.last),) if version else ()
        norms = (*moved, *state.step_norms)[: self.past_steps]
        return replace(state, last=x, frame=encode_dense(x, round=version), step_norms=norms)

    def send(
        self, client: int, x: Vector, version: int, state: LazyModelState, rng: np.random.Generator
    ) -> tuple[bytes, LazyModelState]:
        held = state.clients.get(client)
        if held is not None and self._near(client, x, version, held, state.step_norms):
            return wire.build(Kind.SKIP, round=version, ref=held.version), state
        state.clients[client] = Replica(replica.number(version, 0), x)
        return state.frame, state

    def forget(self, client: int, state: LazyModelState) -> LazyModelState:
        state.clients.pop(client, None)
        return state

    def receive(self, frame: bytes, held: Replica | None, size: int) -> tuple[Vector, Replica]:
        return replica.receive(Dense(), frame, held, size)

    def _near(
        self, client: int, x: Vector, version: int, held: Replica, step_norms: tuple[float, ...]
    ) -> bool:
        if self.max_staleness is not None and version + 1 - held.version > self.max_staleness:
            return False
        bound = self.lipschitz[client] if isinstance(self.lipschitz, tuple) else self.lipschitz
        return thresholds.within_steps(x, held.model, self.tau / bound, step_norms, self.past_steps)  # type: ignore[operator]
