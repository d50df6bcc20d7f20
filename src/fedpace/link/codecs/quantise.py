"""b bits per entry and one scale per group: the codec, and the same quantiser for caches."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedpace.errors import FrameError, require, require_count, require_flag
from fedpace.link.codecs import groups
from fedpace.link.codecs.groups import Groups, PerTensor
from fedpace.link.wire import frame as wire
from fedpace.link.wire import pack, values
from fedpace.link.wire.frame import Kind
from fedpace.link.wire.pack import Bytes, Codes
from fedpace.vector import Vector

ROUNDED_UP = 3  # a scale that is not sent exactly grows by at most so many roundoffs


def levels(bits: int) -> int:
    """s = 2^(b-1) - 1: magnitudes above zero."""
    return (1 << (bits - 1)) - 1


def require_bits(bits: object, what: str) -> None:
    require_count(bits, what)
    require(bits in range(2, 17), what, bits, "in 2..16")


@dataclass(frozen=True, slots=True)
class Quantize(PerTensor):
    """Sign and magnitude in b bits: a = floor(|v| / scale * s + u), decoded sign(v) a scale / s.

    scale = max|v| of the tensor (flat: of the vector), s = 2^(b-1) - 1. `stochastic`: u uniform in [0, 1),
    unbiased. Nearest: u = 1/2, biased but contractive: the one to use under an error memory.
    Variance: E||C(v) - v||^2 <= omega ||v||^2, omega = (sqrt(1 + (d-1)/s^2) - 1) / 2, reached when all
    entries but the largest have the same worst magnitude (maximise sum p(1-p) over s^2 + sum p^2).
    Contraction of nearest: (d-1) / (d-1 + 4 s^2), reached when all but the largest lie half a step up.
    Both are a little larger where the scale is rounded; it is rounded up, so that nothing is cut off.
    Wire: QUANT; per tensor the scale, then the codes, sign bit (1 = negative) first.

    >>> import numpy as np
    >>> from fedpace.link import Quantize
    >>> codec, v = Quantize(bits=8), np.linspace(-1, 1, 1000, dtype=np.float32)
    >>> frame = codec.encode(v, np.random.default_rng(0))
    >>> len(frame), bool(abs(codec.decode(frame, v.size) - v).max() < 1 / 100)
    (1024, True)
    """

    bits: int
    stochastic: bool = True
    values: str | None = None
    groups: Groups = ()

    def __post_init__(self) -> None:
        require_bits(self.bits, "Quantize.bits")
        require_flag(self.stochastic, "Quantize.stochastic")
        values.require_type(self.values, "Quantize.values")

    def encode(self, v: Vector, rng: np.random.Generator) -> bytes:
        name = values.type_name(v, self.values)
        at = groups.bounds(self._sizes(v.size))
        u = uniform(rng, v) if self.stochastic else None
        sign_bit = 1 << (self.bits - 1)
        codes, scales = _codes(v, at, self.bits, u, (0, sign_bit, 1), name)
        parts: list[npt.NDArray[np.generic]] = []
        for g, (low, high) in enumerate(zip(at, at[1:], strict=False)):
            parts += values.to_wire(scales[g : g + 1], name), pack.pack(codes[low:high], self.bits)
        return wire.build(Kind.QUANT, *parts, flags=self._flags(name), aux=self.bits)

    def decode(self, frame: bytes, size: int) -> Vector:
        header = wire.expect(frame, Kind.QUANT)
        name = values.sent_type(header, self.values)
        if header.aux != self.bits or header.flags & wire.STOCHASTIC != self._flags(name) & wire.STOCHASTIC:
            raise FrameError(f"QUANT: not made by {self}: aux {header.aux}, flags {header.flags:#04x}")
        sizes = self._sizes(size)
        one = values.type_bytes(name)
        wire.expect_length(header, sum(one + pack.packed_bytes(d, self.bits) for d in sizes))
        decoded = list(self._decode(frame, sizes, name))
        return decoded[0] if len(decoded) == 1 else np.concatenate(decoded)

    def _decode(self, frame: bytes, sizes: Groups, name: str) -> Iterator[Vector]:
        s = levels(self.bits)
        shares = np.arange(s + 1) / s
        signed = np.concatenate([shares, -shares])
        signed[s + 1] = np.nan  # minus zero is never written
        at = wire.HEADER_BYTES
        for d in sizes:
            scale = values.scale(frame, name, at, "QUANT")
            at += values.type_bytes(name)
            packed = np.frombuffer(frame, np.uint8, pack.packed_bytes(d, self.bits), at)
            at += packed.size
            table = (signed * scale).astype(scale.dtype)
            yield values.finite(pack.look_up(packed, self.bits, d, table), "QUANT")

    def _flags(self, name: str) -> int:
        return values.type_flags(name) | (wire.STOCHASTIC if self.stochastic else 0)

    @property
    def unbiased(self) -> bool:
        return self.stochastic

    def omega(self, size: int) -> float | None:
        d, s = max(self._sizes(size)), levels(self.bits)
        grown = 1 + ROUNDED_UP * values.roundoff(self.values)
        exact = (math.sqrt(1 + (d - 1) / s**2) - 1) / 2
        return (exact + (grown - 1) / s) * grown**2 if self.stochastic else None

    def contraction(self, size: int) -> float | None:
        d, s = max(self._sizes(size)), levels(self.bits)
        grown = 1 + ROUNDED_UP * values.roundoff(self.values)
        exact = (d - 1) / (d - 1 + 4 * s**2)
        return None if self.stochastic else exact * grown**2 + (grown - 1) ** 2


# ---------------------------------------------------------------- for caches


def quantise(
    x: Vector, bits: int, u: np.random.Generator | Vector | None, *, bucket: int | Sequence[int] = 2048
) -> tuple[Bytes, Vector]:
    """(codes packed at b bits, one scale per bucket); codes are offset by +L = 2^(b-1) - 1, so 0..2L.

    `u`: a generator or numbers in [0, 1) for unbiased rounding, None for nearest. `bucket`: how many
    entries share a scale, or the sizes of the tensors that do.
    """
    require_bits(bits, "bits")
    top = levels(bits)
    chance = uniform(u, x) if isinstance(u, np.random.Generator) else u
    codes, scales = _codes(x, _cuts(x.size, bucket), bits, chance, (top, top, -1), None)
    return pack.pack(codes, bits), scales


def dequantise(
    packed: Bytes, scales: Vector, bits: int, size: int, *, bucket: int | Sequence[int] = 2048
) -> Vector:
    """code * scale / L for each of the `size` entries."""
    from fedpace.link.codecs import kernels

    out = np.empty(size, scales.dtype)
    at = np.array(_cuts(size, bucket))
    top = scales.dtype.type(levels(bits))
    kernels.values_of_levels(pack.unpack(packed, bits, size), at, scales, top, out)
    return out


def uniform(rng: np.random.Generator, x: Vector) -> Vector:
    """One number in [0, 1) per entry, in the precision of `x`."""
    return rng.random(x.size, np.float64 if x.dtype == np.float64 else np.float32)


def _cuts(size: int, bucket: int | Sequence[int]) -> list[int]:
    if isinstance(bucket, int):
        return [*range(0, size, bucket), size]
    return groups.bounds(groups.sizes(tuple(bucket), size, "bucket"))


def _codes(
    x: Vector, at: list[int], bits: int, u: Vector | None, code: tuple[int, int, int], name: str | None
) -> tuple[Codes, Vector]:
    """Codes of all entries and scales of all groups, the scales as they will be read from type `name`."""
    from fedpace.link.codecs import kernels

    x = values.finite(x if x.dtype.itemsize >= 4 else x.astype(np.float32), "quantise")
    bounds, top = np.array(at), x.dtype.type(levels(bits))
    scales = np.empty(len(at) - 1, x.dtype)
    kernels.max_abs(x, bounds, scales)
    if name is not None:
        scales = _sent_scales(scales, name)
    codes = pack.empty_codes(x.size, bits)
    if u is None:
        kernels.levels_nearest(x, bounds, scales, top, codes, *map(np.int32, code))
    else:
        kernels.levels_stochastic(x, bounds, scales, top, u, codes, *map(np.int32, code))
    return codes, scales


def _sent_scales(scales: Vector, name: str) -> Vector:
    """Scales as they will be read, rounded up where they are rounded: none may be below its largest entry."""
    sent = values.as_sent(scales, name).astype(scales.dtype)
    low = sent < scales
    sent[low] = values.as_sent(scales[low] * (1 + 2 * values.roundoff(name)), name)
    return sent
