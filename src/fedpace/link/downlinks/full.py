"""The whole model, one frame for all clients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedpace.errors import ConfigError
from fedpace.link.codecs.dense import Dense, decode_unflagged, encode_stamped
from fedpace.link.downlinks.first_contact import FirstModelSent
from fedpace.link.protocol import Codec, Downlink
from fedpace.vector import Vector


@dataclass(frozen=True, slots=True)
class FullState:
    version: int = -1  # of the model in `frame`
    frame: bytes = b""  # the same bytes for every client


@dataclass(frozen=True, slots=True)
class Full(FirstModelSent):
    """One frame per version, made when the version is published and sent to each client that retrieves it.

    A past version (Replayed) is encoded on request.
    """

    codec: Codec = Dense()

    @property
    def shared(self) -> bool:
        return True

    def init(self, x: Vector, clients: int) -> FullState:
        return FullState()

    def publish(self, x: Vector, version: int, state: FullState, rng: np.random.Generator) -> FullState:
        return FullState(version, encode_stamped(self.codec, x, rng, version))

    def send(
        self, client: int, x: Vector, version: int, state: FullState, rng: np.random.Generator
    ) -> tuple[bytes, FullState]:
        if version == state.version:
            return state.frame, state
        return encode_stamped(self.codec, x, rng, version), state

    def forget(self, client: int, state: FullState) -> FullState:
        return state

    def receive(self, frame: bytes, held: None, size: int) -> tuple[Vector, None]:
        return decode_unflagged(self.codec, frame, size), None


def as_downlink(link: Codec | Downlink | None) -> Downlink:
    """The link itself, or the whole model through a codec; None sends models unchanged."""
    if link is None:
        return Full()
    if isinstance(link, Codec):
        return Full(link)
    if isinstance(link, Downlink):
        return link
    raise ConfigError(f"a downlink must be a codec or a Downlink; got {link!r}")
