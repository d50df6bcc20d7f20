"""CA2FL: the last update of every client calibrates each step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from os import PathLike

import numpy as np

from fedpace.aggregate.protocol import Contribution
from fedpace.aggregate.rows import PackedRows, Rows, SpilledRows, WholeRows
from fedpace.aggregate.total import Total
from fedpace.errors import require, require_flag
from fedpace.vector import Vector

UNQUANTISED = (None, 32)


@dataclass(slots=True)
class CachedState:
    clients: int  # N
    mean: Vector  # h_bar, the mean of all N cached updates (0 for clients never heard)
    rows: Rows  # h_i of the clients heard from
    fresh: Total = field(default_factory=Total)  # A = sum_i (d_i - h_i), h_i as the step began
    change: Total = field(default_factory=Total)  # B = sum_i (new h_i - old h_i)
    before: dict[int, Vector | None] = field(default_factory=dict)  # h_i as the step began, of its members


@dataclass(frozen=True, slots=True)
class Cached:
    """Cached update calibration.

    Wang, Cao, Wu, Chen & Chen, ICLR 2024 (CA2FL), Algorithm 1, with h_i the last update of client i:

        v_t   = h_bar + (1/M) sum_{i in S} (d_i - h_i)            added to the model by the server optimizer
        h_i   <- d_i for i in S                                    h_bar <- h_bar + (1/N) sum_{i in S} (d_i - h_i)

    O(d) per update: the difference first, then the overwrite; h_bar moves only after it was used.
    `bits` 2..16 is MF-CA2FL: the cache holds Q(d_i), unbiased and bit-packed, and h_bar is the mean of what the
    cache really holds; the fresh d_i stay exact unless `quantize_fresh`. None or 32 is unquantised.
    `duplicates`: a client's second delivery in one step is differenced against its value as the step began
    ("round_start", the formula) or against its first delivery ("sequential").
    `spill` names a folder for a memory-mapped cache.
    Sign: displacements, added. Departures: the listing's accumulated sum that is never used is left out.
    """

    bits: int | None = None
    duplicates: str = "round_start"
    quantize_fresh: bool = False
    spill: str | PathLike[str] | None = None
    rows: Callable[[], Rows] | None = None  # another store, for those who bring one

    def __post_init__(self) -> None:
        ok = self.bits in UNQUANTISED or (isinstance(self.bits, int) and 2 <= self.bits <= 16)
        require(ok, "cache_bits", self.bits, "a whole number in 2..16, or 32 for unquantised")
        allowed = ("round_start", "sequential")
        require(self.duplicates in allowed, "duplicates", self.duplicates, " or ".join(allowed))
        require_flag(self.quantize_fresh, "quantize_fresh")
        require(isinstance(self.spill, str | PathLike | None), "spill", self.spill, "a folder, or None")
        both = self.spill is not None and self.bits not in UNQUANTISED
        require(not both, "spill", self.spill, "None with a quantised cache, which is small already")

    def init(self, x: Vector, clients: int) -> CachedState:
        return CachedState(clients, np.zeros_like(x), self._new_rows())

    def add(self, update: Contribution, start: Vector, x: Vector, state: CachedState) -> CachedState:
        client, fresh = update.client, update.delta
        old = state.rows.get(client)
        began = state.before.setdefault(client, old) if self.duplicates == "round_start" else old
        new = state.rows.put(client, fresh, update.rng() if update.rng is not None else None)
        used = new if self.quantize_fresh else fresh
        state.fresh = state.fresh.plus(_minus(used, began), update.count, update.count)
        state.change = state.change.plus(_minus(new, old), 1.0, 0.0)
        return state

    def result(self, state: CachedState) -> tuple[Vector, CachedState]:
        total = state.fresh.mean()
        total += state.mean
        if state.change.vector is not None:
            state.mean += state.change.vector / state.clients
        state.fresh, state.change, state.before = Total(), Total(), {}
        return total, state

    def _new_rows(self) -> Rows:
        if self.rows is not None:
            return self.rows()
        if self.bits not in UNQUANTISED:
            return PackedRows(int(self.bits or 0))
        return WholeRows() if self.spill is None else SpilledRows(self.spill)


def _minus(v: Vector, row: Vector | None) -> Vector:
    return v if row is None else np.subtract(v, row)
