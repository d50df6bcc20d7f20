"""FAVANO and QuAFL: the server's own model counts as one of the averaged models."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedpace.aggregate.protocol import Contribution
from fedpace.aggregate.total import Total
from fedpace.errors import require
from fedpace.vector import Vector


@dataclass(frozen=True, slots=True)
class PooledState:
    total: Total = Total()
    contacts: dict[int, tuple[int, int]] = field(default_factory=dict)  # client -> (times met, steps in all)
    met: dict[int, tuple[int, int]] = field(default_factory=dict)  # the same, of the step being formed


@dataclass(frozen=True, slots=True)
class Pooled:
    """x <- (x + sum_i u_i) / (s + 1) over the s interrupted clients.

    Leconte et al. 2023 (FAVANO): u_i = start + delta / a_i, so that fast clients do not dominate.
    `rescale="steps"`: a_i = q_i, the steps done since the last contact (1 if none); `"mean"`: a_i is the
    mean of q_i over the client's contacts so far, FAVANO's deterministic form estimated on line.
    `rescale=None` is Zakerinia et al. 2022 (QuAFL): u_i is the client's own model.
    Sign: displacements u_i - x, added.
    Departures: FAVANO's factor P(E_i > 0) is taken as 1: a server slower than one local step meets no idle client.
    """

    rescale: str | None = "steps"

    def __post_init__(self) -> None:
        require(self.rescale in ("steps", "mean", None), "rescale", self.rescale, "steps, mean or None")

    def init(self, x: Vector, clients: int) -> PooledState:
        return PooledState()

    def add(self, update: Contribution, start: Vector, x: Vector, state: PooledState) -> PooledState:
        met = self._met(update, state)
        divisor = self._divisor(update, met)
        moved = start + (update.delta if divisor == 1 else update.delta / divisor) - x
        return PooledState(state.total.plus(moved, update.count, update.count), state.contacts, met)

    def result(self, state: PooledState) -> tuple[Vector, PooledState]:
        total = Total(state.total.vector, state.total.weight + 1)
        contacts = {**state.contacts, **state.met} if state.met else state.contacts
        return total.mean(), PooledState(contacts=contacts)

    def _met(self, update: Contribution, state: PooledState) -> dict[int, tuple[int, int]]:
        """The contacts of this step, this one included, where they are counted."""
        if self.rescale != "mean":
            return state.met
        before = state.met.get(update.client, state.contacts.get(update.client, (0, 0)))
        return {**state.met, update.client: (before[0] + 1, before[1] + update.steps)}

    def _divisor(self, update: Contribution, met: dict[int, tuple[int, int]]) -> float:
        if self.rescale is None:
            return 1.0
        if self.rescale == "steps":
            return max(1, update.steps)
        times, steps = met[update.client]
        return max(1.0, steps / times)
