"""Momentum before compression: a client sends a running mean of its updates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedpace.errors import require, require_number
from fedpace.link.protocol import Codec, Context, State
from fedpace.link.uplinks.econtrol import EControl
from fedpace.link.uplinks.ef21 import EF21
from fedpace.link.uplinks.error_feedback import ErrorFeedback
from fedpace.link.uplinks.plain import Plain
from fedpace.vector import Vector


@dataclass(frozen=True, slots=True)
class Running:
    """The state of both ends; the receiver uses `link` only."""

    m: Vector  # the mean; empty before the first update
    link: State


@dataclass(frozen=True, slots=True)
class Averaged:
    """m <- (1 - weight) m + weight v, and m is sent by `link`. The first m is v.

    EF21-SGDM of Fatkhullin, Tyurin & Richtarik 2023 (Algorithm 1, there eta = weight) around EF21, on displacements
    instead of gradients: noise of single updates is averaged before it is compressed. weight = 1 is the link alone.
    """

    weight: float
    link: Plain | ErrorFeedback | EF21 | EControl

    def __post_init__(self) -> None:
        require_number(self.weight, "Averaged.weight", above=0, high=1, allowed="in (0, 1]")
        links = (Plain, ErrorFeedback, EF21, EControl)
        require(
            isinstance(self.link, links), "Averaged.link", self.link, "Plain, ErrorFeedback, EF21 or EControl"
        )

    @property
    def codec(self) -> Codec:
        return self.link.codec

    def init(self, size: int, dtype: np.dtype[np.floating]) -> Running:
        return Running(np.empty(0, dtype), self.link.init(size, dtype))

    @np.errstate(over="ignore", invalid="ignore")  # the codec refuses what is not finite
    def send(
        self, v: Vector, state: Running, context: Context, rng: np.random.Generator
    ) -> tuple[bytes, Running]:
        newest = v.dtype.type(self.weight)
        m = (1 - newest) * state.m + newest * v if state.m.size else v
        frame, link = self.link.send(m, state.link, context, rng)
        return frame, Running(m, link)

    def receive(self, frame: bytes, state: Running, size: int) -> tuple[Vector, Running]:
        used, link = self.link.receive(frame, state.link, size)
        return used, Running(state.m, link)

    def resync(self, state: Running) -> Running:
        return Running(state.m, self.link.resync(state.link))
