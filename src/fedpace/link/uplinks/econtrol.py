"""EControl: EF21 and an error memory, of which a share is added to what the estimate follows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedpace.errors import require_number
from fedpace.link.protocol import Codec, Context
from fedpace.link.uplinks.ef21 import EF21, Estimate
from fedpace.link.wire.values import add
from fedpace.vector import Vector


@dataclass(frozen=True, slots=True)
class Controlled:
    """The state of both ends; the receiver uses `estimate` only."""

    estimate: Estimate  # h
    e: Vector  # the undelivered rest; empty: zero


@dataclass(frozen=True, slots=True)
class EControl:
    """h <- h + C(v + eta e - h) on both ends, the server uses h, and e <- e + v - h.

    Gao, Islamov & Stich 2024, Algorithm 1, on displacements instead of gradients. eta = 0 is EF21. Sum of the values
    used + e = sum of v, as with error feedback; eta says how fast e is delivered. The paper's theory wants eta of
    the order of the codec's contraction; 1 would be error feedback on top of the estimate.
    Departures: h starts at zero, not at an uncompressed first gradient. Wire: that of EF21.
    """

    codec: Codec
    eta: float = 0.1

    def __post_init__(self) -> None:
        EF21(self.codec)  # refuses what does not contract
        require_number(self.eta, "EControl.eta", low=0, high=1, allowed="in [0, 1]")

    def init(self, size: int, dtype: np.dtype[np.floating]) -> Controlled:
        return Controlled(EF21(self.codec).init(size, dtype), np.empty(0, dtype))

    @np.errstate(over="ignore")  # the codec refuses infinities
    def send(
        self, v: Vector, state: Controlled, context: Context, rng: np.random.Generator
    ) -> tuple[bytes, Controlled]:
        wanted = v + v.dtype.type(self.eta) * state.e if state.e.size else v
        frame, estimate = EF21(self.codec).send(wanted, state.estimate, context, rng)
        return frame, Controlled(estimate, add(state.e, v - estimate.g))

    def receive(self, frame: bytes, state: Controlled, size: int) -> tuple[Vector, Controlled]:
        h, estimate = EF21(self.codec).receive(frame, state.estimate, size)
        return h, Controlled(estimate, state.e)

    def resync(self, state: Controlled) -> Controlled:
        """Nothing that was not delivered is forgotten: h begins again, e stays."""
        return Controlled(EF21(self.codec).resync(state.estimate), state.e)
