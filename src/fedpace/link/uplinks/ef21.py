"""EF21: both ends hold an estimate, and its compressed change is sent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedpace.link.protocol import Codec, Context, require_contractive
from fedpace.link.wire import frame as wire
from fedpace.link.wire.frame import ResyncError
from fedpace.link.wire.values import add
from fedpace.vector import Vector, freeze


@dataclass(frozen=True, slots=True)
class Estimate:
    """The state of both ends."""

    version: int  # how often it changed
    round: int  # when it last did (the sender's note)
    g: Vector  # empty: zero


@dataclass(frozen=True, slots=True)
class EF21:
    """g <- g + C(v - g) on both ends; the server uses g.

    Richtarik, Sokolov & Fatkhullin 2021, on displacements instead of gradients. No error memory: the
    residual v - g is sent again until it is gone. The server keeps one dense vector per client heard from.
    Wire: the codec's frame with DIFF set, ref = version of the g it builds on; ref = 0 builds on zero.
    """

    codec: Codec

    def __post_init__(self) -> None:
        require_contractive(self.codec, "EF21.codec")

    def init(self, size: int, dtype: np.dtype[np.floating]) -> Estimate:
        return Estimate(0, 0, np.empty(0, dtype))

    def send(
        self, v: Vector, state: Estimate, context: Context, rng: np.random.Generator
    ) -> tuple[bytes, Estimate]:
        with np.errstate(over="ignore"):  # the codec refuses infinities
            change = v - state.g if state.g.size else v
        frame = self.codec.encode(change, rng)
        g = freeze(add(state.g, self.codec.decode(frame, v.size)))
        stamped = wire.stamp(frame, round=context.round, ref=state.version, flags=wire.DIFF)
        return stamped, Estimate(state.version + 1, context.round, g)

    def receive(self, frame: bytes, state: Estimate, size: int) -> tuple[Vector, Estimate]:
        change = self.codec.decode(frame, size)
        header = wire.peek(frame)
        wire.require_flags(header, wire.DIFF)
        if header.ref not in (0, state.version):
            raise ResyncError(f"a change of version {header.ref} came; version {state.version} is held")
        before = state.g if header.ref else np.empty_like(state.g, shape=0)
        g = freeze(add(before, change))
        return g, Estimate(header.ref + 1, header.round, g)

    def resync(self, state: Estimate) -> Estimate:
        return Estimate(0, 0, np.empty_like(state.g, shape=0))
