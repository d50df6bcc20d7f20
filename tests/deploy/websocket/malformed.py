"""Frames that are almost right: valid ones with a field, a length or their order changed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedpace.deploy.websocket.wire import (
    HEARTBEAT_FRAME,
    NO_LINK,
    HelloFrame,
    Place,
    WelcomeFrame,
    ack_bytes,
    bye_bytes,
    chunk_header,
    greeting_bytes,
)

EDGES = (0, 1, 2, 3, 255, 4096, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1)


class Mutator:
    """Draws frames; those of one connection in turn, so that some go deep into its state."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.begin()

    def begin(self) -> None:
        """A new connection: the honest sender's place in its stream."""
        self._number = self._offset = self._total = 0

    def _edge(self) -> int:
        return int(EDGES[self.rng.integers(len(EDGES))])

    def _place(self) -> Place:
        return Place(self._edge(), self._edge())

    def honest_chunk(self) -> bytes:
        """What comes next in turn."""
        if self._offset == 0:
            self._total = int(self.rng.integers(0, 9000))
        size = min(int(self.rng.integers(1, 3000)), self._total - self._offset)
        frame = chunk_header(Place(self._number, self._offset), self._total) + bytes(size)
        self._offset += size
        if self._offset == self._total:
            self._number, self._offset = self._number + 1, 0
        return frame

    def harmless(self) -> bytes:
        """A frame that a peer may send at any time."""
        return [self.honest_chunk, lambda: HEARTBEAT_FRAME, lambda: ack_bytes(Place(0, 0))][
            self.rng.integers(3)
        ]()

    def hostile(self) -> bytes:
        kinds: tuple[Callable[[], bytes], ...] = (
            lambda: chunk_header(self._place(), self._edge()) + self.rng.bytes(int(self.rng.integers(0, 50))),
            lambda: chunk_header(Place(self._number, self._offset), self._edge()) + b"x",
            lambda: ack_bytes(self._place()),
            lambda: bye_bytes("x" * int(self.rng.integers(0, 300))) + self.rng.bytes(3),
            lambda: greeting_bytes(
                HelloFrame(self._edge() % 2**32, self.rng.bytes(16), NO_LINK, self._place())
            ),
            lambda: greeting_bytes(WelcomeFrame(0, self.rng.bytes(16), self.rng.bytes(16), self._place())),
            lambda: self._broken(self.harmless()),
            lambda: self.rng.bytes(int(self.rng.integers(0, 100))),
        )
        return kinds[self.rng.integers(len(kinds))]()

    def _broken(self, frame: bytes) -> bytes:
        """Truncated, extended, or with a few bytes changed."""
        choice, changed = self.rng.integers(3), bytearray(frame)
        if choice == 0:
            return bytes(changed[: self.rng.integers(0, len(changed) + 1)])
        if choice == 1:
            return bytes(changed) + self.rng.bytes(int(self.rng.integers(1, 20)))
        for _ in range(int(self.rng.integers(1, 4))):
            changed[self.rng.integers(len(changed))] ^= int(self.rng.integers(1, 256))
        return bytes(changed)
