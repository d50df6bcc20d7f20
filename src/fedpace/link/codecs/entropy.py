"""Uniform levels, entropy-coded to a given number of bits per entry."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fedpace.errors import FrameError, require_flag, require_number
from fedpace.link.codecs import groups
from fedpace.link.codecs.groups import Groups, PerTensor
from fedpace.link.wire import frame as wire
from fedpace.link.wire import values
from fedpace.link.wire.frame import Kind
from fedpace.vector import Vector

FINEST = 12  # octaves between the largest entry and the smallest step
MOST_LEVEL = (1 << FINEST) + 1
PER_OCTAVE = 64  # steps between s and 2 s
TRIES, CLOSE = 9, 0.008  # steps tried, and the share of the bits that may be left over
SLOPE = 0.8  # bits per entry that an octave of the step costs, about
WINDOW = 1 << 14  # entries of a tensor that its lag is found in
NEAREST, FARTHEST = 3, 1024  # lags: the two entries before are looked at anyway
LAG = np.dtype("<u2")
LEVEL = np.int16  # of MOST_LEVEL at most
SEED = struct.Struct("<I")
BLOCK = 1 << 16  # entries that are decoded at a time where there is no room for all

Ints = npt.NDArray[np.integer]
Bytes = npt.NDArray[np.uint8]


class CodedTensors(NamedTuple):
    """How the entries of a vector are coded one after another."""

    bounds: Ints  # where each tensor begins, and the end
    lags: Ints  # of each


class Levels(NamedTuple):
    """What a frame says of a vector."""

    q: npt.NDArray[Any]  # integers, of an integer type or the vector's own
    scales: Vector  # step; without dither also the mean of level 1 and the mean offset of the others
    seed: int | None  # of the dither


Quantiser = Callable[[float], Levels]  # by the step


@dataclass(frozen=True, slots=True)
class EntropyCoded(PerTensor):
    """Round entries to multiples of one step s, and send the integers in at most `bits` bits per entry.

    s is the smallest step whose code fits. With `dither`, q = round(v/s + u) is decoded as (q - u) s, u uniform in
    [-1/2, 1/2) and made by both ends from a seed in the frame (Ziv 1985). The error is uniform in [-s/2, s/2] whatever
    v is, has mean zero and variance s^2/12 per entry, and is independent between frames: it averages out over the
    clients of a step. Without, q = sign(v) floor(|v|/s + 0.35) has the smaller error (Sullivan 1996): |q| = 1 is
    decoded as the mean magnitude of these entries, a larger one as (|q| + c) s, c their mean offset.
    An adaptive arithmetic coder (`arithmetic`) writes q. Its probabilities depend on the two entries before and on the
    one `lag` before, the lag at which a tensor resembles itself most: 28 for a first layer on images of 28x28. One s
    for all tensors is best for the squared error.
    Contraction: ||C(v) - v||^2 <= (1 - 1/d) ||v||^2. s is at most the largest magnitude, and a vector for which dither
    would break the bound is sent without.
    Wire: CODED; step, u32 seed (flag STOCHASTIC), or step, mean of level 1, offset c; u16 lag of each tensor; the code.
    Departures: where even s = max|v| needs more bits, more are sent.
    """

    bits: float
    dither: bool = True
    groups: Groups = ()

    def __post_init__(self) -> None:
        require_number(self.bits, "EntropyCoded.bits", above=0, high=FINEST, allowed=f"in (0, {FINEST}]")
        require_flag(self.dither, "EntropyCoded.dither")

    @property
    def unbiased(self) -> bool:
        return self.dither

    def encode(self, v: Vector, rng: np.random.Generator) -> bytes:
        name = values.type_name(v, None)
        v = values.finite(v if v.dtype.itemsize >= 4 else v.astype(np.float32), "entropy coding")
        bounds = np.array(groups.bounds(self._sizes(v.size)))
        tensors = CodedTensors(bounds, np.array([_lag(v[low:high]) for low, high in pairwise(bounds)], LAG))
        most = math.ceil(self.bits * v.size / 8)
        if self.dither and v.any():
            quantise = _dithered(v, int(rng.integers(1 << 32)), name)
            step, code = _finest(v, quantise, most, tensors)
            if code.size <= most and _contracts(v, levels := quantise(step)):
                return _write(levels, code, tensors, name)
        quantise = _with_dead_zone(v, name)
        step, code = _finest(v, quantise, most, tensors)
        return _write(quantise(step), code, tensors, name)

    def decode(self, frame: bytes, size: int) -> Vector:
        found = self._read(frame, size, in_place=True)
        room = found.q if found.q.dtype == found.scales.dtype else np.empty(size, found.scales.dtype)
        _decode_part(found, 0, room)
        return room

    def subtract(self, frame: bytes, v: Vector) -> Vector:
        """v - decode(frame), written over `v`, block by block."""
        found = self._read(frame, v.size, in_place=False)
        if v.dtype != found.scales.dtype:
            return v - self.decode(frame, v.size)
        for low in range(0, v.size, BLOCK):
            part = v[low : low + BLOCK]
            used = np.empty_like(part)
            _decode_part(found, low, used)
            part -= used
        return v

    def _read(self, frame: bytes, size: int, *, in_place: bool) -> Levels:
        found, _ = read(frame, self._sizes(size), in_place=in_place)
        if found.seed is not None and not self.dither:
            raise FrameError(f"CODED: dithered, which {self} does not write")
        return found

    def contraction(self, size: int) -> float:
        return 1 - (1 - 2 * values.roundoff("fp32")) / size


def _top(v: Vector) -> float:
    """The largest magnitude, without a copy."""
    return float(max(v.max(initial=0), -v.min(initial=0)))


def _lag(v: Vector) -> int:
    """The shift under which a tensor resembles itself most, by the roots of its entries."""
    if v.size < 4 * NEAREST:
        return NEAREST
    part = v[:WINDOW].astype(np.float64)
    part /= _top(part) or 1.0
    roots = np.sign(part) * np.sqrt(np.abs(part))
    spectrum = np.fft.rfft(roots, 2 * roots.size)
    alike = np.fft.irfft(np.abs(spectrum) ** 2)[NEAREST : min(roots.size // 2, FARTHEST) + 1]
    return NEAREST + int(np.argmax(alike))


# ---------------------------------------------------------------- levels


def _dithered(v: Vector, seed: int, name: str) -> Quantiser:
    from fedpace.link.codecs import levels

    def quantise(step: float) -> Levels:
        sent = _sent_step(step, v, name)
        q = np.empty(v.size, LEVEL)
        levels.with_dither(v, np.uint64(seed), float(sent[0]), q)
        return Levels(q, sent, seed)

    return quantise


def _with_dead_zone(v: Vector, name: str) -> Quantiser:
    from fedpace.link.codecs import levels

    def quantise(step: float) -> Levels:
        if step == 0:
            return Levels(np.zeros(v.size, LEVEL), np.zeros(3, v.dtype), None)
        sent = _sent_step(step, v, name)
        q = np.empty(v.size, LEVEL)
        means = levels.with_dead_zone(v, float(sent[0]), q)
        return Levels(q, np.append(sent, values.as_sent(np.array(means, v.dtype), name)), None)

    return quantise


def _sent_step(step: float, v: Vector, name: str) -> Vector:
    """The step as it will be read; never zero."""
    sent = values.as_sent(np.array([step], v.dtype), name)
    return np.maximum(sent, np.finfo(np.float16 if name == "fp16" else v.dtype).smallest_subnormal)


def _decode_part(found: Levels, low: int, out: Vector) -> None:
    """The entries from `low` on that fill `out`, which may be the integers' own memory."""
    from fedpace.link.codecs import levels

    q = found.q[low : low + out.size]
    step, largest = float(found.scales[0]), float(np.finfo(out.dtype).max)
    if found.seed is None:
        first, rest = map(float, found.scales[1:])
        levels.with_means(q, step, first, rest, largest, out)
    else:
        levels.without_dither(q, np.uint64(found.seed), low, step, largest, out)


def _contracts(v: Vector, found: Levels) -> bool:
    """Whether dithered levels keep the bound on the error."""
    from fedpace.link.codecs import levels

    step, seed = float(found.scales[0]), np.uint64(found.seed or 0)
    whole, error = levels.dithered_squares(v, found.q, seed, step, _top(v))
    return error <= (1 - 1 / v.size) * whole


# ---------------------------------------------------------------- the step


def _finest(v: Vector, quantise: Quantiser, most: int, tensors: CodedTensors) -> tuple[float, Bytes]:
    """The smallest step max|v| 2^(-k/64) whose code has at most so many bytes, as far as it is sought, and the code."""
    top, best = _top(v), None
    low, high, k = -1, FINEST * PER_OCTAVE + 1, _first_guess(v, top)
    bytes_per_k = SLOPE * v.size / 8 / PER_OCTAVE
    for _ in range(TRIES):
        step = top * 2.0 ** (-k / PER_OCTAVE)
        code = write_code(quantise(step).q, tensors)
        left = most - code.size
        low, high, best = (k, high, (step, code)) if left >= 0 else (low, k, best)
        if high - low <= 1 or 0 <= left <= CLOSE * most:
            break
        k += math.floor((left - CLOSE / 2 * most) / bytes_per_k)
        k = min(max(k, low + 1), high - 1)
    return best or (top, write_code(quantise(top).q, tensors))


def _first_guess(v: Vector, top: float) -> int:
    """The step of about the size of the vector's root mean square."""
    from fedpace.link.codecs import levels

    return round(-PER_OCTAVE / 2 * math.log2(levels.mean_square(v, top))) if top else 0


# ---------------------------------------------------------------- frames


def write_code(q: Ints, tensors: CodedTensors) -> Bytes:
    """The integers in as many bytes as they take."""
    from fedpace.link.codecs import arithmetic

    room = np.empty(q.size // 2 + 16, np.uint8)
    while (used := arithmetic.write_integers(q, tensors.bounds, tensors.lags, room)) > room.size:
        room = np.empty(used, np.uint8)
    return room[:used]


def read_code(code: Bytes, tensors: CodedTensors, dtype: npt.DTypeLike = LEVEL) -> npt.NDArray[Any]:
    """The integers that `write_code` wrote, as numbers of this type; FrameError for bytes that it did not."""
    from fedpace.link.codecs import arithmetic

    q = np.empty(int(tensors.bounds[-1]), dtype)
    if not arithmetic.read_integers(code, tensors.bounds, tensors.lags, MOST_LEVEL, q):
        raise FrameError("CODED: not a code of levels")
    return q


def _write(found: Levels, code: Bytes, tensors: CodedTensors, name: str) -> bytes:
    seed = b"" if found.seed is None else SEED.pack(found.seed)
    flags = values.type_flags(name) | (0 if found.seed is None else wire.STOCHASTIC)
    return wire.build(Kind.CODED, values.to_wire(found.scales, name), seed, tensors.lags, code, flags=flags)


def read(frame: bytes, sizes: Groups, *, in_place: bool = False) -> tuple[Levels, CodedTensors]:
    """The fields of a frame; FrameError if no codec wrote it.

    `in_place`: the integers lie in a vector of the decoded type, if it holds them exactly: no second one is needed.
    """
    header = wire.expect(frame, Kind.CODED)
    name = values.sent_type(header, None)
    dithered = bool(header.flags & wire.STOCHASTIC)
    count = 1 if dithered else 3
    seed_at = wire.HEADER_BYTES + count * values.type_bytes(name)
    lags_at = seed_at + (SEED.size if dithered else 0)
    code_at = lags_at + len(sizes) * LAG.itemsize
    if len(frame) < code_at:
        raise FrameError(f"CODED: {header.length} bytes are too few")
    scales = values.finite(values.from_wire(frame, name, count, wire.HEADER_BYTES), "CODED")
    lags = np.frombuffer(frame, LAG, len(sizes), lags_at)
    if ((lags < NEAREST) | (lags > FARTHEST)).any():
        raise FrameError(f"CODED: a lag is not in {NEAREST}..{FARTHEST}")
    tensors = CodedTensors(np.array(groups.bounds(sizes)), lags)
    dtype = scales.dtype if in_place and scales.dtype.itemsize > 2 else LEVEL
    q = read_code(np.frombuffer(frame, np.uint8, offset=code_at), tensors, dtype)
    seed = SEED.unpack_from(frame, seed_at)[0] if dithered else None
    return _checked(Levels(q, scales, seed)), tensors


def _checked(found: Levels) -> Levels:
    """FrameError for scales that do not belong to these integers."""
    from fedpace.link.codecs import levels

    step, first, rest = (*found.scales, 0, 0)[:3]
    if np.signbit(found.scales[:2]).any() or abs(rest) > 1:
        raise FrameError("CODED: a scale is negative or out of range")
    largest, ones = levels.magnitudes(found.q)
    vain = (step > 0) != (largest > 0) or (first > 0) != ones or (rest != 0 and largest < 2)
    if step == 0 if found.seed is not None else vain:
        raise FrameError("CODED: a scale is missing or in vain")
    return found
