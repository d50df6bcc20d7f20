"""The link without state."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedpace.errors import ConfigError
from fedpace.link.codecs.dense import Dense, decode_unflagged, encode_stamped
from fedpace.link.protocol import Codec, Context, Uplink
from fedpace.vector import Vector


@dataclass(frozen=True, slots=True)
class Plain:
    """Send the compressed vector; the compression error is lost."""

    codec: Codec = Dense()

    def init(self, size: int, dtype: np.dtype[np.floating]) -> None:
        return None

    def send(self, v: Vector, state: None, context: Context, rng: np.random.Generator) -> tuple[bytes, None]:
        return encode_stamped(self.codec, v, rng, context.round), None

    def receive(self, frame: bytes, state: None, size: int) -> tuple[Vector, None]:
        return decode_unflagged(self.codec, frame, size), None

    def resync(self, state: None) -> None:
        return None

    def owed(self, v: Vector, e: Vector) -> Vector:
        """The vector to send: no error memory is added."""
        return v

    def rest(self, p: Vector, used: Vector, fresh: Vector) -> Vector:
        """The error memory: always empty."""
        return np.empty(0, p.dtype)


def as_uplink(link: Codec | Uplink | None) -> Uplink:
    """The link itself, or the plain link of a codec; None sends vectors unchanged."""
    if link is None:
        return Plain()
    if isinstance(link, Codec):
        return Plain(link)
    if isinstance(link, Uplink) and not hasattr(link, "publish"):
        return link
    raise ConfigError(f"an uplink must be a codec or an Uplink; got {link!r}")
