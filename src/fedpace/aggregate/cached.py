"""CA2FL: the last update of every client calibrates each step."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any

import numpy as np

from fedpace.aggregate.protocol import Contribution
from fedpace.aggregate.rows import FullPrecision, Packed, Row, RowFormat, Spilled
from fedpace.aggregate.total import Total
from fedpace.errors import require, require_flag
from fedpace.vector import Vector

UNQUANTISED = (None, 32)


@dataclass(frozen=True, slots=True)
class CachedState:
    clients: int  # N
    mean: Vector  # h_bar, the mean of all N cached updates (0 for clients never heard)
    rows: dict[int, Row] = field(default_factory=dict)  # h_i of the clients heard from, as the step began
    renewed: dict[int, Row] = field(default_factory=dict)  # new h_i of the members of the step being formed
    fresh: Total = Total()  # A = sum_i (d_i - h_i), h_i as the step began
    change: Total = Total()  # B = sum_i (new h_i - old h_i)


@dataclass(frozen=True, slots=True)
class Cached:
    """Cached update calibration.

    Wang, Cao, Wu, Chen & Chen, FL workshop at ICML 2023 (CA2FL), Algorithm 1, with h_i the last update of client i:

        v_t   = h_bar + (1/M) sum_{i in S} (d_i - h_i)            added to the model by the server optimizer
        h_i   <- d_i for i in S                                    h_bar <- h_bar + (1/N) sum_{i in S} (d_i - h_i)

    O(d) per update: the difference first, then the overwrite; h_bar moves only after it was used.
    `bits` 2..16 is MF-CA2FL: the cache holds Q(d_i), unbiased and bit-packed, and h_bar is the mean of what the
    cache really holds; the fresh d_i stay exact unless `quantize_fresh`. None or 32 is unquantised.
    `duplicates`: a client's second delivery in one step is differenced against its value as the step began
    ("round_start", the formula) or against its first delivery ("sequential").
    `spill` names a folder for a cache on disk; `rows` is another way to store a row, for a plug-in.
    Sign: displacements, added. Departures: the listing's accumulated sum that is never used is left out.
    """

    bits: int | None = None
    duplicates: str = "round_start"
    quantize_fresh: bool = False
    spill: str | PathLike[str] | None = None
    rows: RowFormat | None = None

    def __post_init__(self) -> None:
        ok = self.bits in UNQUANTISED or (isinstance(self.bits, int) and 2 <= self.bits <= 16)
        require(ok, "cache_bits", self.bits, "a whole number in 2..16, or 32 for unquantised")
        allowed = ("round_start", "sequential")
        require(self.duplicates in allowed, "duplicates", self.duplicates, " or ".join(allowed))
        require_flag(self.quantize_fresh, "quantize_fresh")
        require(isinstance(self.spill, str | PathLike | None), "spill", self.spill, "a folder, or None")
        both = self.spill is not None and self.bits not in UNQUANTISED
        require(not both, "spill", self.spill, "None with a quantised cache, which is small already")

    @property
    def format(self) -> RowFormat:
        """How a row is stored."""
        if self.rows is not None:
            return self.rows
        if self.bits not in UNQUANTISED:
            return Packed(int(self.bits or 0))
        return FullPrecision() if self.spill is None else Spilled(self.spill)

    def init(self, x: Vector, clients: int) -> CachedState:
        return CachedState(clients, np.zeros_like(x))

    def row(self, client: int, state: CachedState) -> Vector | None:
        """h_i; None for a client never heard."""
        return self._value(state.renewed.get(client, state.rows.get(client)))

    def add(self, update: Contribution, start: Vector, x: Vector, state: CachedState) -> CachedState:
        client, old = update.client, self.row(update.client, state)
        began = self._value(state.rows.get(client)) if self.duplicates == "round_start" else old
        row = self.format.store(update.delta, update.rng() if update.rng is not None else None)
        new = self.format.value(row)
        used = new if self.quantize_fresh else update.delta
        renewed = state.renewed or {}  # a table of this step's own, added to in place
        renewed[client] = row
        return replace(
            state,
            renewed=renewed,
            fresh=state.fresh.plus(_minus(used, began), update.count, update.count),
            change=state.change.plus(_minus(new, old), 1.0, 0.0),
        )

    def result(self, state: CachedState) -> tuple[Vector, CachedState]:
        total = state.fresh.mean()
        total += state.mean
        mean = state.mean
        if state.change.vector is not None:
            mean = mean + state.change.vector / state.clients
        return total, CachedState(state.clients, mean, {**state.rows, **state.renewed})

    def _value(self, row: Any) -> Vector | None:
        return None if row is None else self.format.value(row)


def _minus(v: Vector, row: Vector | None) -> Vector:
    return v if row is None else np.subtract(v, row)
