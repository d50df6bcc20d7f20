"""One public model for all clients: a client that is behind gets the changes since its version."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from fedpace.kernels import difference
from fedpace.link.codecs.dense import encode_dense
from fedpace.link.downlinks import replica
from fedpace.link.protocol import Codec, sends_exactly
from fedpace.link.wire import frame as wire
from fedpace.link.wire.frame import Kind
from fedpace.link.wire.indices import Indices
from fedpace.link.wire.values import spent_sum
from fedpace.vector import Vector, freeze


@dataclass(frozen=True, slots=True)
class Change:
    """How one publication moved the public model: entries that were set, or a frame that was added."""

    version: int
    at: Indices
    added: bytes = b""


@dataclass(frozen=True, slots=True)
class SharedState:
    version: int  # publications so far
    model: Vector  # w
    changes: tuple[Change, ...] = ()  # the last ones, newest last
    since: int = 0  # `changes` has all that happened after this version
    clients: dict[int, int] = field(default_factory=dict)  # version each client heard from holds
    frames: dict[int, bytes] = field(default_factory=dict)  # version held -> frame that brings it up to date


def publish(
    codec: Codec, tau: float, ring: int, x: Vector, version: int, state: SharedState, rng: np.random.Generator
) -> SharedState:
    """Move w towards x, once for all clients."""
    state = replace(state, version=version + 1, frames={})
    if replica.near(x, state.model, tau):
        return state
    change, w = _move(codec, x, state, rng)
    changes = (*state.changes, change)
    since = changes[-ring - 1].version if len(changes) > ring else state.since
    return replace(state, model=w, changes=changes[-ring:], since=since)


def _move(codec: Codec, x: Vector, state: SharedState, rng: np.random.Generator) -> tuple[Change, Vector]:
    r = difference(x, state.model)
    if sends_exactly(codec, x.dtype):
        at = codec.support(r)
        return Change(state.version, at), replica.overwrite(state.model, at, x[at])
    frame = codec.encode(r, rng)
    del r  # its room is needed for the next
    w = freeze(spent_sum(state.model, codec.decode(frame, x.size)))
    return Change(state.version, np.empty(0, np.int64), frame), w


def send(codec: Codec, client: int, x: Vector, version: int, state: SharedState) -> tuple[bytes, SharedState]:
    """The frame that brings one client to w; a model other than the newest goes out whole."""
    if version + 1 != state.version:
        state.clients.pop(client, None)
        return encode_dense(x, round=version), state
    has = state.clients.get(client, 0)
    if has not in state.frames:
        state.frames[has] = _catch_up(codec, has, state)
    frame = state.frames[has]
    if wire.peek(frame).kind is not Kind.SKIP:
        state.clients[client] = state.version
    return frame, state


def _catch_up(codec: Codec, has: int, state: SharedState) -> bytes:
    round = state.version - 1
    missed = [change for change in state.changes if change.version > has]
    known = has and has >= state.since
    if known and not missed:
        return wire.build(Kind.SKIP, round=round, ref=has)
    if known and len(missed) == 1 and missed[0].added:
        return wire.stamp(missed[0].added, round=round, ref=has, flags=wire.DIFF)
    if not known or not sends_exactly(codec, state.model.dtype):
        return wire.stamp(encode_dense(state.model), round=round, ref=has)
    at = np.unique(np.concatenate([change.at for change in missed]))
    return wire.stamp(replica.set_frame(state.model, at, codec.index), round=round, ref=has)
