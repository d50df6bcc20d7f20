"""SCAFFOLD."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from fedpace.local.correction import mean_gradient
from fedpace.vector import Vector

if TYPE_CHECKING:
    from fedpace.aggregate.protocol import Contribution


@dataclass(frozen=True, slots=True)
class ScaffoldState:
    c: Vector  # the server's control variate, broadcast
    change: Vector  # Σ (c_i⁺ − c_i) since the last step
    clients: int  # N


@dataclass(frozen=True, slots=True)
class Scaffold:
    """SCAFFOLD: each gradient is moved by the difference between the mean gradient of all clients and the client's own.

    Karimireddy et al., "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning", arXiv:1910.06378,
    Algorithm 1, option II:

        y   ← y − η (g_i(y) − c_i + c)
        c_i⁺ = c_i − c + (x − y) / (K η)                     sent: c_i⁺ − c_i
        c   ← c + (1/N) Σ_S (c_i⁺ − c_i)

    so that c is the mean of all c_i after every step, whichever clients took part, clients not seen yet having c_i = 0.
    Sign: delta = y − x.
    Departures: ||a_i||_1 stands for K, the same for plain steps and right for every other local solver.
    """

    def init(self, x: Vector, clients: int) -> ScaffoldState:
        return ScaffoldState(np.zeros_like(x), np.zeros_like(x), clients)

    def broadcast(self, state: ScaffoldState) -> Vector:
        return state.c

    def before(self, memory: Vector | None, control: Vector) -> Vector:
        return control if memory is None else control - memory

    def after(
        self, memory: Vector | None, correction: Vector | None, delta: Vector, a_norm1: float, lr: float
    ) -> tuple[Vector, Vector]:
        c_i = mean_gradient(delta, correction, a_norm1, lr)
        return c_i if memory is None else c_i - memory, c_i

    def fold(self, update: Contribution, control: Vector, state: ScaffoldState) -> ScaffoldState:
        return replace(state, change=state.change + control)

    def stepped(self, state: ScaffoldState) -> ScaffoldState:
        return replace(state, c=state.c + state.change / state.clients, change=np.zeros_like(state.c))
