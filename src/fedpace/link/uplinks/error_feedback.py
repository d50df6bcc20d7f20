"""Error feedback: the compression error is added to the next update."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedpace.errors import require
from fedpace.link.codecs.dense import decode_unflagged
from fedpace.link.protocol import Codec, Context, Subtracts, require_contractive
from fedpace.link.wire import frame as wire
from fedpace.link.wire.values import spent_difference
from fedpace.spill import plus
from fedpace.vector import Vector


@dataclass(frozen=True, slots=True)
class Memory:
    e: Vector  # the undelivered rest; empty: zero


@dataclass(frozen=True, slots=True)
class ErrorFeedback:
    """Error memory on the sender: p = v + e, c = C(p) is sent, e becomes p - (the value the server used).

    Seide et al. 2014; Karimireddy et al. 2019; FedCAMS. Sum of the values used + e = sum of v, always.
    `memory` matters under a lazy rule only: subtract the value the server used ("judged", the choice for
    NLA), or C(p) even if the server used another ("fresh", which keeps AA's bonus but loses what NLA skips).
    """

    codec: Codec
    memory: str = "judged"

    def __post_init__(self) -> None:
        require_contractive(self.codec, "ErrorFeedback.codec")
        require(self.memory in ("judged", "fresh"), "ErrorFeedback.memory", self.memory, "judged or fresh")

    def init(self, size: int, dtype: np.dtype[np.floating]) -> Memory:
        return Memory(np.empty(0, dtype))

    def send(
        self, v: Vector, state: Memory, context: Context, rng: np.random.Generator
    ) -> tuple[bytes, Memory]:
        p = self.owed(v, state.e)
        frame = self.codec.encode(p, rng)
        return wire.stamp(frame, round=context.round), Memory(self._rest(p, frame, own=p is not v))

    def _rest(self, p: Vector, frame: bytes, *, own: bool) -> Vector:
        """e, written over p where that is ours and the codec can: at most one vector more is in memory."""
        if own and isinstance(self.codec, Subtracts):
            return self.codec.subtract(frame, p)
        return spent_difference(p, self.codec.decode(frame, p.size))

    def receive(self, frame: bytes, state: Memory, size: int) -> tuple[Vector, Memory]:
        return decode_unflagged(self.codec, frame, size), state

    def resync(self, state: Memory) -> Memory:
        return state

    @np.errstate(over="ignore")  # the codec refuses infinities
    def owed(self, v: Vector, e: Vector) -> Vector:
        """p: the update and the error memory."""
        return plus(v, e) if e.size else v

    def rest(self, p: Vector, used: Vector, fresh: Vector) -> Vector:
        """e: the part of p that was not delivered."""
        return np.subtract(p, used if self.memory == "judged" else fresh).astype(p.dtype, copy=False)
