"""Inner loops that numpy cannot express in one pass, compiled by numba.

Imported on first use: runs that compress nothing never load the compiler. Nothing here checks its
arguments; callers size every buffer. Sums run in four fixed lanes, so they do not depend on the machine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compiled on first call and kept on disk, unless there is no place to keep it."""
    try:
        return cast(Function, numba.njit(cache=True, nogil=True, error_model="numpy")(function))
    except RuntimeError:
        return cast(Function, numba.njit(nogil=True, error_model="numpy")(function))


# ---------------------------------------------------------------- sums


@compiled
def sum_abs(x: Array) -> float:
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    whole = x.size // 4 * 4
    for i in range(0, whole, 4):
        a += abs(x[i])
        b += abs(x[i + 1])
        c += abs(x[i + 2])
        d += abs(x[i + 3])
    for i in range(whole, x.size):
        a += abs(x[i])
    return (a + b) + (c + d)


# ---------------------------------------------------------------- selection by magnitude
#
# The bits of |x| order as its value does. A histogram of the 15 bits after the sign leaves one bucket in
# which the k-th largest must lie; only that bucket and those above are looked at again.


@compiled
def count_top_bits(bits: Array, mask: np.unsignedinteger, shift: np.unsignedinteger, counts: Array) -> None:
    for i in range(bits.size):
        counts[(bits[i] & mask) >> shift] += 1


@compiled
def gather_bucket(
    bits: Array,
    mask: np.unsignedinteger,
    shift: np.unsignedinteger,
    bucket: np.unsignedinteger,
    inside: Array,
) -> None:
    """`inside` has one place more than there are such entries: every one is written, few are kept."""
    found = 0
    for i in range(bits.size):
        word = bits[i] & mask
        inside[found] = word
        found += (word >> shift) == bucket


@compiled
def find_largest(
    bits: Array, mask: np.unsignedinteger, last: np.unsignedinteger, equal: int, where: Array
) -> None:
    """Where entries are larger than `last`, or among the first `equal` that equal it; one place more, as above."""
    found = 0
    for i in range(bits.size):
        word = bits[i] & mask
        where[found] = i
        if word > last:
            found += 1
        elif word == last and equal > 0:
            found += 1
            equal -= 1


@compiled
def mark(mask: Array, where: Array) -> None:
    for j in range(where.size):
        mask[where[j]] = True


@compiled
def find_marked(bits: Array, where: Array) -> None:
    """`where` has one place more than there are marks."""
    found = 0
    for i in range(bits.size):
        where[found] = i
        found += bits[i]


# ---------------------------------------------------------------- octaves


@compiled
def smallest_of(v: Array, at: Array) -> float:
    """The smallest magnitude among these entries; infinite if there are none."""
    smallest = np.inf
    for j in range(at.size):
        smallest = min(smallest, abs(np.float64(v[at[j]])))
    return smallest


@compiled
def octaves_of(v: Array, at: Array, bounds: Array, levels: Array, totals: Array, counts: Array) -> None:
    """How many of the bounds each magnitude reaches; sums and numbers of the magnitudes of every level."""
    for j in range(at.size):
        size, level = abs(np.float64(v[at[j]])), 0
        for bound in bounds:
            level += size >= bound
        levels[j] = level
        totals[level] += size
        counts[level] += 1


@compiled
def are_positive(v: Array, at: Array, positive: Array) -> None:
    for j in range(at.size):
        positive[j] = v[at[j]] > 0


@compiled
def add_octaves(at: Array, positive: Array, levels: Array, scales: Array, v: Array, counts: Array) -> None:
    for j in range(at.size):
        scale = scales[levels[j]]
        v[at[j]] += scale if positive[j] else -scale
        counts[levels[j]] += 1


@compiled
def unary_read(packed: Array, below: int, numbers: Array) -> int:
    """Bits read; -1 if the bytes end too early, -2 if a number is not smaller than `below`."""
    at, end = 0, 8 * packed.size
    for j in range(numbers.size):
        number = 0
        while at < end and packed[at >> 3] & (128 >> (at & 7)):
            number += 1
            at += 1
        if at == end:
            return -1
        if number >= below:
            return -2
        numbers[j] = number
        at += 1
    return at


# ---------------------------------------------------------------- quantiser
#
# `bounds` cuts x into groups with one scale each. Level a of a value >= 0 has code plus + a, of a negative
# one minus + step * a: sign and magnitude on the wire, an offset in caches. For LLVM to vectorise a loop, it
# runs over a slice from zero, and its constants are local and no wider than its numbers.


@compiled
def max_abs(x: Array, bounds: Array, scales: Array) -> None:
    for g in range(scales.size):
        part, top = x[bounds[g] : bounds[g + 1]], x.dtype.type(0)
        for i in range(part.size):
            a = abs(part[i])
            top = a if a > top else top
        scales[g] = top


@compiled
def levels_nearest(
    x: Array,
    bounds: Array,
    scales: Array,
    top: np.floating,
    codes: Array,
    plus: np.int32,
    minus: np.int32,
    step: np.int32,
) -> None:
    half = x.dtype.type(0.5)
    for g in range(scales.size):
        part, out = x[bounds[g] : bounds[g + 1]], codes[bounds[g] : bounds[g + 1]]
        scale = scales[g] if scales[g] > 0 else x.dtype.type(np.inf)
        for i in range(part.size):
            level = abs(part[i]) / scale * top + half
            a = np.int32(level if level < top else top)
            out[i] = minus + step * a if (part[i] < 0) & (a > 0) else plus + a


@compiled
def levels_stochastic(
    x: Array,
    bounds: Array,
    scales: Array,
    top: np.floating,
    u: Array,
    codes: Array,
    plus: np.int32,
    minus: np.int32,
    step: np.int32,
) -> None:
    for g in range(scales.size):
        part, out = x[bounds[g] : bounds[g + 1]], codes[bounds[g] : bounds[g + 1]]
        chance = u[bounds[g] : bounds[g + 1]]
        scale = scales[g] if scales[g] > 0 else x.dtype.type(np.inf)
        for i in range(part.size):
            level = abs(part[i]) / scale * top + chance[i]
            a = np.int32(level if level < top else top)
            out[i] = minus + step * a if (part[i] < 0) & (a > 0) else plus + a


@compiled
def values_of_levels(codes: Array, bounds: Array, scales: Array, top: np.floating, out: Array) -> None:
    """The inverse for codes with an offset: (code - top) * scale / top."""
    for g in range(scales.size):
        part, target = codes[bounds[g] : bounds[g + 1]], out[bounds[g] : bounds[g + 1]]
        scale = scales[g]
        for i in range(part.size):
            target[i] = (part[i] - top) * scale / top


# ---------------------------------------------------------------- bit packing, most significant bit first


@compiled
def pack_nibbles(codes: Array, out: Array) -> None:
    for i in range(codes.size // 2):
        out[i] = (codes[2 * i] << 4) | codes[2 * i + 1]


@compiled
def pack_bits(codes: Array, width: int, out: Array) -> None:
    held, count, at = np.uint64(0), 0, 0
    for i in range(codes.size):
        held = (held << np.uint64(width)) | np.uint64(codes[i])
        count += width
        while count >= 8:
            count -= 8
            out[at] = np.uint8((held >> np.uint64(count)) & np.uint64(255))
            at += 1
    if count:
        out[at] = np.uint8((held << np.uint64(8 - count)) & np.uint64(255))


@compiled
def unpack_bits(packed: Array, width: int, codes: Array) -> None:
    held, count, at = np.uint64(0), 0, 0
    mask = np.uint64((1 << width) - 1)
    for i in range(codes.size):
        while count < width:
            held = (held << np.uint64(8)) | np.uint64(packed[at])
            count += 8
            at += 1
        count -= width
        codes[i] = (held >> np.uint64(count)) & mask


@compiled
def look_up_nibbles(packed: Array, table: Array, out: Array) -> None:
    for i in range(out.size // 2):
        out[2 * i] = table[packed[i] >> 4]
        out[2 * i + 1] = table[packed[i] & 15]


@compiled
def look_up(codes: Array, table: Array, out: Array) -> None:
    for i in range(codes.size):
        out[i] = table[codes[i]]


# ---------------------------------------------------------------- gap codes


@compiled
def sum_shifted(gaps: Array, p: int) -> int:
    total = 0
    for j in range(gaps.size):
        total += gaps[j] >> p
    return total


@compiled
def rice_write(gaps: Array, p: int, out: Array) -> None:
    """(g >> p) ones, a zero, p low bits; most significant bit first. `held` has the bits not yet written."""
    held, count, at = np.uint64(0), 0, 0
    low = np.uint64((1 << p) - 1)
    for j in range(gaps.size):
        ones = gaps[j] >> p
        while ones >= 0:
            run = ones if ones < 24 else 24
            last = run == ones
            bits = (np.uint64(1) << np.uint64(run)) - np.uint64(1)
            held = (held << np.uint64(run)) | bits
            count += run
            if last:
                held = (held << np.uint64(p + 1)) | (np.uint64(gaps[j]) & low)
                count += p + 1
            while count >= 8:
                count -= 8
                out[at] = np.uint8(held >> np.uint64(count))
                at += 1
            ones = -1 if last else ones - run
    if count:
        out[at] = np.uint8(held << np.uint64(8 - count))


@compiled
def rice_read(block: Array, p: int, size: int, where: Array) -> int:
    """Bits read, or -1 if the block ends too early or a position is not below `size`."""
    held, count, at, position = np.uint64(0), 0, 0, -1
    low = np.uint64((1 << p) - 1)
    most = size >> p
    for j in range(where.size):
        gap = 0
        while True:
            if count == 0:
                if at == block.size:
                    return -1
                held, count, at = np.uint64(block[at]), 8, at + 1
            count -= 1
            if not (held >> np.uint64(count)) & np.uint64(1):
                break
            gap += 1
            if gap > most:
                return -1
        while count < p:
            if at == block.size:
                return -1
            held, count, at = (held << np.uint64(8)) | np.uint64(block[at]), count + 8, at + 1
        count -= p
        position += (gap << p) + int((held >> np.uint64(count)) & low) + 1
        if position >= size:
            return -1
        where[j] = position
    return at * 8 - count


@compiled
def varint_write(gaps: Array, out: Array) -> None:
    """LEB128: seven bits per byte, low group first."""
    at = 0
    for j in range(gaps.size):
        rest = gaps[j]
        while rest >= 128:
            out[at] = (rest & 127) | 128
            rest >>= 7
            at += 1
        out[at] = rest
        at += 1


@compiled
def varint_read(block: Array, size: int, where: Array) -> int:
    """Bytes read, or -1: too short, longer than need be, or a position not below `size`."""
    at, position = 0, -1
    for j in range(where.size):
        gap, shift = 0, 0
        while at < block.size and block[at] >= 128 and shift < 28:
            gap |= (int(block[at]) & 127) << shift
            shift += 7
            at += 1
        if at >= block.size or block[at] >= 128 or (shift > 0 and block[at] == 0):
            return -1
        gap |= int(block[at]) << shift
        at += 1
        position += gap + 1
        if position >= size:
            return -1
        where[j] = position
    return at
