"""Traffic of a run: bytes sent, the nominal bits that papers count, skips, and compression error."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from fedpace.link.wire.describe import FrameInfo, describe
from fedpace.link.wire.frame import ADD_PREV
from fedpace.vector import Vector

_last: tuple[bytes, VectorShape, FrameInfo] | None = None


class VectorShape(NamedTuple):
    """Of the vectors in the frames: their entries, and the groups that have a scale of their own."""

    size: int
    groups: int = 1


def _described(frame: bytes, shape: VectorShape) -> FrameInfo:
    """`describe`, once for a frame that goes to many clients."""
    global _last
    if _last is None or _last[0] is not frame or _last[1] != shape:
        _last = frame, shape, describe(frame, *shape)
    return _last[2]


BLOCK = 1 << 20  # entries compared at a time: no vector as long as the model is made for it


@dataclass(slots=True)
class Lane:
    """One direction."""

    frames: int = 0
    header_bytes: int = 0
    payload_bytes: int = 0
    control_bytes: int = 0  # frames beside the update or the model, headers included
    value_bits: int = 0  # nominal: 32 per number sent
    index_bits: int = 0  # nominal: ceil(log2 d) per position
    fired: int = 0  # how often a lazy rule skipped (NLA, LAG) or added (AA)
    phantom: int = 0  # values used that never crossed the link (literal readings)
    error: float = 0.0  # sum of ||v - used||^2 ...
    norm: float = 0.0  # ... and of ||v||^2, where the link loses anything

    def count(self, frame: bytes, info: FrameInfo, times: int = 1) -> None:
        self.frames += times
        self.header_bytes += times * info.header_bytes
        self.payload_bytes += times * info.payload_bytes
        self.value_bits += times * info.value_bits
        self.index_bits += times * info.index_bits
        self.fired += times * bool(info.skipped or frame[2] & ADD_PREV)
        self.phantom += times * info.phantom

    def compare(self, v: Vector, used: Vector) -> None:
        """Add the error of the vector that the receiver uses in place of `v`."""
        for low in range(0, v.size, BLOCK):
            sent = v[low : low + BLOCK]
            lost = np.subtract(sent, used[low : low + BLOCK])
            self.error += float(lost @ lost)
            self.norm += float(sent @ sent)

    @property
    def relative_error(self) -> float:
        """||v - used|| / ||v||, root mean square over all frames compared."""
        return math.sqrt(self.error / self.norm) if self.norm else 0.0

    @property
    def rate(self) -> float:
        """The share of frames for which a lazy rule fired."""
        return self.fired / self.frames if self.frames else 0.0


@dataclass(slots=True)
class Account:
    """One client's."""

    bytes_up: int = 0
    bytes_down: int = 0
    uploads: int = 0
    steps: int = 0  # local steps behind its uploads
    fired: int = 0  # how often a lazy rule did

    def plain(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(slots=True)
class Traffic:
    up: Lane = field(default_factory=Lane)
    down: Lane = field(default_factory=Lane)
    clients: dict[int, Account] = field(default_factory=dict)  # those that took part

    def uploaded(self, client: int, frames: Mapping[str, bytes], steps: int, shape: VectorShape) -> None:
        account = self._account(client)
        account.uploads += 1
        account.steps += steps
        account.bytes_up += sum(map(len, frames.values()))
        account.fired -= self.up.fired
        for name, frame in frames.items():
            if name == "update":
                self.up.count(frame, describe(frame, *shape))
            else:
                self.up.control_bytes += len(frame)
        account.fired += self.up.fired

    def downloaded(self, client: int, frames: Mapping[str, bytes], shape: VectorShape) -> None:
        self._account(client).bytes_down += sum(map(len, frames.values()))
        self.broadcast(frames, shape, 1)

    def _account(self, client: int) -> Account:
        account = self.clients.get(client)
        if account is None:
            account = self.clients[client] = Account()
        return account

    def broadcast(self, frames: Mapping[str, bytes], shape: VectorShape, clients: int) -> None:
        """Sent to so many at once; not told apart by client."""
        for name, frame in frames.items():
            if name == "model":
                self.down.count(frame, _described(frame, shape), clients)
            else:
                self.down.control_bytes += clients * len(frame)

    def plain(self) -> dict[str, Any]:
        """Both directions, and the clients that took part, as plain numbers."""
        accounts = {client: account.plain() for client, account in sorted(self.clients.items())}
        return {"up": _plain(self.up), "down": _plain(self.down), "clients": accounts}


def _plain(lane: Lane) -> dict[str, float]:
    counts = (
        "frames",
        "header_bytes",
        "payload_bytes",
        "control_bytes",
        "value_bits",
        "index_bits",
        "fired",
        "phantom",
    )
    return {name: getattr(lane, name) for name in counts} | {
        "firing_rate": lane.rate,
        "relative_error": lane.relative_error,
    }
