"""All values, unchanged or rounded to a narrower type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from fedpace.link.protocol import Codec
from fedpace.link.wire import frame as wire
from fedpace.link.wire import values
from fedpace.link.wire.frame import Kind
from fedpace.link.wire.indices import Indices
from fedpace.vector import Layout, Vector


@dataclass(frozen=True, slots=True)
class Dense:
    """All d values, in the vector's own type (`dtype=None`) or rounded to fp32, fp16, bf16 or fp64.

    Wire: d numbers. Decoding fp32 and fp64 is a read-only view of the frame.
    Contraction: the square of the type's unit roundoff (fp16: away from its subnormals).
    """

    dtype: str | None = None
    ratio: ClassVar[float | None] = None
    index: ClassVar[str] = "auto"

    def __post_init__(self) -> None:
        values.require_type(self.dtype, "Dense.dtype")

    def bind(self, layout: Layout) -> Self:
        return self

    def encode(self, v: Vector, rng: np.random.Generator) -> bytes:
        return encode_dense(v, self.dtype)

    def decode(self, frame: bytes, size: int) -> Vector:
        header = wire.expect(frame, Kind.DENSE)
        name = values.sent_type(header, self.dtype)
        wire.expect_length(header, size * values.type_bytes(name))
        return values.finite(values.from_wire(frame, name, size, wire.HEADER_BYTES), "DENSE")

    def contraction(self, size: int) -> float:
        return values.roundoff(self.dtype) ** 2

    def exact(self, dtype: np.dtype[np.floating]) -> bool:
        return values.exact(dtype, self.dtype)

    def support(self, v: Vector) -> Indices:
        return np.flatnonzero(v)


def encode_dense(v: Vector, dtype: str | None = None, round: int = 0) -> bytes:
    name = values.type_name(v, dtype)
    return wire.build(Kind.DENSE, values.to_wire(v, name), flags=values.type_flags(name), round=round)


def encode_stamped(codec: Codec, v: Vector, rng: np.random.Generator, round: int) -> bytes:
    """The codec's frame with its round."""
    if type(codec) is Dense:  # the same bytes, without a second copy of the longest frame there is
        return encode_dense(v, codec.dtype, round)
    return wire.stamp(codec.encode(v, rng), round=round)


def decode_dense(frame: bytes, size: int) -> Vector:
    """A DENSE frame of whatever value type it says."""
    return Dense(values.type_of(wire.peek(frame))).decode(frame, size)


def decode_unflagged(codec: Codec, frame: bytes, size: int) -> Vector:
    """The vector of a frame that needs no earlier one."""
    v = codec.decode(frame, size)
    wire.refuse_link_flags(frame)
    return v
