"""A model held on both ends of a downlink, and the frames that bring it nearer to the server's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedpace.link.codecs.dense import Dense, encode_dense
from fedpace.link.protocol import Codec, sends_exactly
from fedpace.link.uplinks import thresholds
from fedpace.link.wire import frame as wire
from fedpace.link.wire import sparse, values
from fedpace.link.wire.frame import Kind, ResyncError
from fedpace.link.wire.indices import Indices
from fedpace.link.wire.values import spent_sum
from fedpace.vector import Vector, freeze


@dataclass(frozen=True, slots=True)
class Replica:
    """A client's copy of the model."""

    version: int  # names the model; 0 is none
    model: Vector


def near(x: Vector, h: Vector, tau: float) -> bool:
    """Whether h is near enough to x: equal, or ||x - h|| <= tau ||h||."""
    return np.array_equal(x, h) or thresholds.within_norm(x, h, tau)


def overwrite(h: Vector, at: Indices, picked: Vector) -> Vector:
    """h with the entries `at` set, not added to."""
    h = h.copy()
    h[at] = picked
    return freeze(h)


def set_frame(model: Vector, at: Indices, index: str) -> bytes:
    """A frame that sets the entries `at`, or the whole model if that is no longer."""
    frame = sparse.write(Kind.SET_SPARSE, at, model[at], model.size, values.type_name(model, None), index)
    return frame if len(frame) < wire.HEADER_BYTES + model.nbytes else encode_dense(model)


def number(round: int, ref: int) -> int:
    """The version a frame brings its receiver to. Grows with every frame, whatever rounds they are of."""
    return max(round, ref) + 1


def receive(codec: Codec, frame: bytes, held: Replica | None, size: int) -> tuple[Vector, Replica]:
    """The client's half."""
    header = wire.peek(frame)
    if header.kind is Kind.DENSE and not header.flags & wire.DIFF:
        model = Dense().decode(frame, size)
        wire.refuse_flags(header, wire.ADD_PREV)
    else:
        if held is None or header.ref != held.version:
            wire.check(frame)  # a damaged reference is no reason to ask for the whole model
            has = 0 if held is None else held.version
            raise ResyncError(f"{header.kind.name} builds on version {header.ref}; version {has} is held")
        if header.kind is Kind.SKIP:
            wire.check(frame)
            return held.model, held
        model = _apply(codec, frame, header, held.model)
    return model, Replica(number(header.round, header.ref), model)


def _apply(codec: Codec, frame: bytes, header: wire.Header, h: Vector) -> Vector:
    if sends_exactly(codec, h.dtype):
        name = values.type_name(h, None)
        at, picked = sparse.read(frame, Kind.SET_SPARSE, h.size, h.size, name, codec.index)
        return overwrite(h, at, picked)
    change = codec.decode(frame, h.size)
    wire.require_flags(header, wire.DIFF)
    return freeze(spent_sum(h, change))
