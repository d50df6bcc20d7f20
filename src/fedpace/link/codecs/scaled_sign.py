"""One bit per entry, one scale per tensor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedpace.link.codecs import groups
from fedpace.link.codecs.groups import Groups, PerTensor
from fedpace.link.wire import frame as wire
from fedpace.link.wire import pack, values
from fedpace.link.wire.frame import Kind, NonFiniteError
from fedpace.vector import Vector

# row b: the signs that the eight bits of byte b stand for, first entry in bit 7
_SIGNS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.int8) * 2 - 1


@dataclass(frozen=True, slots=True)
class ScaledSign(PerTensor):
    """C(v) = (||v||_1 / d) sign(v) with sign(0) = +1.

    Contraction: ||C(v) - v||^2 = (1 - ||v||_1^2 / (d ||v||^2)) ||v||^2, at worst 1 - 1/d.
    Wire: SIGN; per tensor (flat: once) the scale, then one bit per entry, 1 = not negative.
    """

    values: str | None = None
    groups: Groups = ()

    def __post_init__(self) -> None:
        values.require_type(self.values, "ScaledSign.values")

    def encode(self, v: Vector, rng: np.random.Generator) -> bytes:
        name = values.type_name(v, self.values)
        at = groups.bounds(self._sizes(v.size))
        parts: list[npt.NDArray[np.generic]] = []
        for low, high in zip(at, at[1:], strict=False):
            parts += values.to_wire(_scale(v[low:high]), name), np.packbits(v[low:high] >= 0)
        return wire.build(Kind.SIGN, *parts, flags=values.type_flags(name))

    def decode(self, frame: bytes, size: int) -> Vector:
        header = wire.expect(frame, Kind.SIGN)
        name = values.sent_type(header, self.values)
        sizes = self._sizes(size)
        wire.expect_length(header, sum(values.type_bytes(name) + pack.packed_bytes(d, 1) for d in sizes))
        decoded = list(_decode(frame, sizes, name))
        return decoded[0] if len(decoded) == 1 else np.concatenate(decoded)

    def contraction(self, size: int) -> float:
        largest = max(self._sizes(size))
        return 1 - (1 - values.roundoff(self.values) ** 2) / largest


def _scale(v: Vector) -> Vector:
    from fedpace.link.codecs import kernels

    scale = kernels.sum_abs(v) / max(1, v.size)
    if not np.isfinite(scale):
        raise NonFiniteError("scaled sign: a value is not finite")
    return np.array([scale], v.dtype)


def _decode(frame: bytes, sizes: Groups, name: str) -> Iterator[Vector]:
    at = wire.HEADER_BYTES
    for d in sizes:
        scale = values.scale(frame, name, at, "SIGN")
        at += values.type_bytes(name)
        packed = np.frombuffer(frame, np.uint8, pack.packed_bytes(d, 1), at)
        pack.check_padding(packed, 1, d)
        at += packed.size
        yield np.take(_SIGNS * scale, packed, axis=0).reshape(-1)[:d]
