"""Lazy communication: NLA, AA and LAG around a plain link, error feedback or EF21."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fedpace.errors import FrameError, require, require_count, require_number
from fedpace.link.codecs.dense import decode_dense, encode_dense
from fedpace.link.protocol import Codec, Context, State
from fedpace.link.uplinks import thresholds
from fedpace.link.uplinks.ef21 import EF21, Estimate
from fedpace.link.uplinks.error_feedback import ErrorFeedback
from fedpace.link.uplinks.plain import Plain
from fedpace.link.wire import frame as wire
from fedpace.link.wire.frame import Kind, Phantom, ResyncError
from fedpace.link.wire.values import add
from fedpace.vector import Vector

RULES = ("nla", "aa", "lag")
LARGEST = 1e100  # of tau, whose square must be a number
REFERENCES = {"nla": ("held", "absent_is_zero", "raw"), "aa": ("held", "judged"), "lag": ("held",)}


@dataclass(frozen=True, slots=True)
class Held:
    """The state of either end; the receiver uses `version` and `held` only."""

    memory: Vector  # the error memory, empty where there is none
    raw: Vector  # literal reading: the fresh value of a round that was skipped
    version: int = 0  # how many values were delivered
    held: bytes = b""  # the frame of the last one
    sent_round: int = 0  # when it was sent
    seen_round: int = 0  # when this client last took part


@dataclass(frozen=True, slots=True)
class Lazy:
    """Compare a fresh value x with y, the one the receiver holds, before it is sent.

    NLA: if ||x - y|| <= tau ||y||, send SKIP and the server uses y again.
    AA:  if so, x is sent with ADD_PREV and the server uses x + y. Never saves bytes.
    LAG: if ||x - y||^2 <= tau^2 mean of the last R squared steps of the model, SKIP. tau = 1 is the rule of
         Chen et al. 2018 with xi = 1/R when the server adds the mean update (there alpha m = client_lr K).

    "Bidirectional communication-efficient non-convex adaptive federated learning", equations 3 and 4. Around
    EF21 the fresh value is compared before compression, with g (as CLAG does); around the others the
    compressed values are compared. A value is reused for `max_staleness` rounds at most.
    `over_n`: tau is divided by the number of updates per step, the form C / (alpha n) the paper prints.
    Departures: y is the value the receiver *holds*. `reference="raw"` is the literal reading, the previous fresh
    value whether it was sent or not: the server then uses values that never crossed the link, which only a
    simulation can do (`Phantom`). `reference="absent_is_zero"` (the proofs): never fires after an absence.
    `reference="judged"` (AA): y is the value last used, doubled or not.
    """

    rule: str
    tau: float
    max_staleness: int | None = 10
    link: Plain | ErrorFeedback | EF21 = Plain()
    reference: str = "held"
    over_n: bool = False
    past_steps: int = 10  # R

    def __post_init__(self) -> None:
        require(self.rule in RULES, "Lazy.rule", self.rule, " or ".join(RULES))
        require_number(self.tau, "Lazy.tau", low=0, high=LARGEST, allowed=f"in [0, {LARGEST:g}]")
        if self.max_staleness is not None:
            require_count(self.max_staleness, "Lazy.max_staleness")
        unbounded = self.max_staleness is None and not self.over_n and self.reference != "raw"
        stuck = self.rule == "nla" and self.tau >= 1 and unbounded
        require(
            not stuck, "Lazy.tau", self.tau, "< 1 for nla without max_staleness: it would never send again"
        )
        links = (Plain, ErrorFeedback, EF21)
        require(isinstance(self.link, links), "Lazy.link", self.link, "Plain, ErrorFeedback or EF21")
        allowed = ("held",) if isinstance(self.link, EF21) else REFERENCES[self.rule]
        require(self.reference in allowed, "Lazy.reference", self.reference, " or ".join(allowed))
        doubled = self.rule == "aa" and isinstance(self.link, EF21)
        require(not doubled, "Lazy.rule", self.rule, "nla or lag around EF21, which has nothing to add up")
        require_count(self.past_steps, "Lazy.past_steps")

    @property
    def window(self) -> int:
        """How many squared steps of the model the rule wants to know."""
        return self.past_steps if self.rule == "lag" else 0

    @property
    def codec(self) -> Codec:
        return self.link.codec

    def init(self, size: int, dtype: np.dtype[np.floating]) -> Held | Estimate:
        if isinstance(self.link, EF21):
            return self.link.init(size, dtype)
        return Held(np.empty(0, dtype), np.empty(0, dtype))

    def send(
        self, v: Vector, state: State, context: Context, rng: np.random.Generator
    ) -> tuple[bytes, State]:
        if isinstance(self.link, EF21):
            return self._send_change(self.link, v, state, context, rng)
        return self._send_value(self.link, v, state, context, rng)

    def receive(self, frame: bytes, state: State, size: int) -> tuple[Vector, State]:
        header = wire.peek(frame)
        if header.kind is Kind.SKIP:
            return self._reuse(frame, header, state, size)
        if isinstance(self.link, EF21):
            return self.link.receive(frame, state, size)
        return self._receive_value(frame, header, state, size)

    def resync(self, state: State) -> State:
        """The sender's state once the receiver has asked for a full value; the error memory stays."""
        if isinstance(self.link, EF21):
            return self.link.resync(state)
        return Held(state.memory, np.empty_like(state.raw, shape=0))

    # ------------------------------------------------------------ the lazy rule

    def _fires(self, x: Vector, y: Vector, sent_round: int, context: Context) -> bool:
        if self.max_staleness is not None and context.round - sent_round > self.max_staleness:
            return False
        if self.rule == "lag":
            return thresholds.within_steps(x, y, self.tau, context.step_norms, self.past_steps)
        tau = thresholds.per_update(self.tau, 1.0, context.clients_per_step) if self.over_n else self.tau
        return thresholds.within_norm(x, y, tau)

    def _reuse(self, frame: bytes, header: wire.Header, state: State, size: int) -> tuple[Vector, State]:
        """The server's half of a skip."""
        wire.check(frame)
        if self.rule == "aa":
            raise FrameError("SKIP: AA always sends its value")
        if isinstance(frame, Phantom) and self.reference == "raw":
            return frame.value, state
        _require_held(header, state.version)
        return (state.g if isinstance(state, Estimate) else self._open(state.held, size)), state

    # ------------------------------------------------------------ around EF21

    def _send_change(
        self, link: EF21, v: Vector, state: Estimate, context: Context, rng: np.random.Generator
    ) -> tuple[bytes, Estimate]:
        if state.version and self._fires(v, state.g, state.round, context):
            return wire.build(Kind.SKIP, round=context.round, ref=state.version), state
        return link.send(v, state, context, rng)

    # ------------------------------------------------------------ around a plain link or error feedback

    def _send_value(
        self, link: Plain | ErrorFeedback, v: Vector, state: Held, context: Context, rng: np.random.Generator
    ) -> tuple[bytes, Held]:
        p = link.owed(v, state.memory)
        frame = self.codec.encode(p, rng)
        x = self.codec.decode(frame, v.size)
        y = self._reference(state, v.size, context)
        if y is not None and not self._fires(x, y, state.sent_round, context):
            y = None
        if y is not None and self.rule != "aa":
            return self._skip(state, y, context.round, x, link.rest(p, y, x))
        used = x if y is None else add(x, y)
        flags = 0 if y is None else wire.ADD_PREV
        frame = wire.stamp(frame, round=context.round, ref=state.version, flags=flags)
        return frame, Held(
            memory=link.rest(p, used, x),
            raw=np.empty_like(state.raw, shape=0),
            version=state.version + 1,
            held=self._keep(frame, used),
            sent_round=context.round,
            seen_round=context.round,
        )

    def _reference(self, state: Held, size: int, context: Context) -> Vector | None:
        """y, or None where there is nothing to compare with."""
        if not self.tau or not state.version:
            return None
        if self.reference == "absent_is_zero" and context.round - state.seen_round > 1:
            return None
        return state.raw if state.raw.size else self._open(state.held, size)

    def _skip(self, state: Held, y: Vector, round: int, x: Vector, rest: Vector) -> tuple[bytes, Held]:
        frame = wire.build(Kind.SKIP, round=round, ref=0 if state.raw.size else state.version)
        raw = x if self.reference == "raw" else state.raw
        after = replace(state, memory=rest, raw=raw, seen_round=round)
        return (Phantom(frame, y) if state.raw.size else frame), after

    def _receive_value(
        self, frame: bytes, header: wire.Header, state: Held, size: int
    ) -> tuple[Vector, Held]:
        used = self.codec.decode(frame, size)
        wire.refuse_flags(header, wire.DIFF if self.rule == "aa" else wire.DIFF | wire.ADD_PREV)
        if header.flags & wire.ADD_PREV:
            _require_held(header, state.version)
            used = add(used, self._open(state.held, size))
        return used, replace(state, version=header.ref + 1, held=self._keep(frame, used))

    def _keep(self, frame: bytes, used: Vector) -> bytes:
        return encode_dense(used) if self.reference == "judged" else frame

    def _open(self, held: bytes, size: int) -> Vector:
        dense = wire.peek(held).kind is Kind.DENSE
        return decode_dense(held, size) if dense else self.codec.decode(held, size)


def _require_held(header: wire.Header, version: int) -> None:
    if header.ref != version or not version:
        raise ResyncError(f"{header.kind.name} builds on version {header.ref}; version {version} is held")
