"""Adaptive binary arithmetic coding of small integers, compiled by numba.

An integer is a series of decisions: is it zero, is it negative, is its magnitude above 1, 2, ..., `UNARY`; the rest
of a larger one is in Exp-Golomb code. The probability of a decision is counted among the earlier ones with the same
*context*: the sizes and signs of the two entries before and of the one `lag` before. Runs of zeros, smooth rows and
stripes thus cost little, and nothing has to be sent in advance. Interval coding as in Witten, Neal & Cleary 1987, with
56 bits, so that an interval hardly ever gets short. Integers only: both ends agree on every machine.

Nothing here checks its arguments. The decoder reads zeros past the end of its bytes, so whatever they are it ends.
"""

from __future__ import annotations

import numpy as np

from fedpace.link.codecs.kernels import Array, compiled

TOP = (1 << 56) - 1  # the interval at first is 0..TOP
FIRST_BYTE = 48  # the shift that leaves the interval's first byte
ONE = 1 << 16  # probability 1
RAREST = 32  # of 2^16: no decision is impossible
MEMORY = 255  # decisions that a probability is the mean of, at most
RATES = (ONE / (np.arange(MEMORY + 1) + 0.5)).astype(np.int64)  # of the n-th decision, in units of 2^-16
ZERO, SIGN, MAGNITUDE = 0, 27, 36  # where the contexts of each question begin
DEPTH = 14  # contexts of a magnitude, for each of four neighbourhoods
CONTEXTS = MAGNITUDE + 4 * DEPTH
UNARY = 20
MOST_BITS = 20  # of a number in Exp-Golomb code

Writer = tuple[int, int, int]  # the interval's ends, and where the next byte goes
Reader = tuple[int, int, int, int]  # and the bytes within the interval


@compiled
def contexts_of(q: Array, i: int, low: int, lag: int) -> tuple[int, int, int]:
    """The contexts of zero, sign and magnitude for entry i of a tensor that begins at `low`."""
    left = int(q[i - 1]) if i - 1 >= low else 0
    before = int(q[i - 2]) if i - 2 >= low else 0
    above = int(q[i - lag]) if i - lag >= low else 0
    a, b, c = min(2, abs(left)), min(2, abs(above)), min(2, abs(before))
    sign = 4 + 3 * ((left > 0) - (left < 0)) + (above > 0) - (above < 0)
    near = min(3, max(a, b) + (1 if a + b > 2 else 0))
    return ZERO + 9 * a + 3 * b + c, SIGN + sign, MAGNITUDE + DEPTH * near


@compiled
def learn(p: Array, seen: Array, k: int, one: int) -> None:
    """After another decision in context k: the mean of the last ones, kept off 0 and 1."""
    seen[k] = min(seen[k] + 1, MEMORY)
    moved = p[k] + (((ONE if one else 0) - p[k]) * RATES[seen[k]] >> 16)
    p[k] = min(max(moved, RAREST), ONE - RAREST)


# ---------------------------------------------------------------- writing


@compiled
def put(to: Writer, out: Array, p: int, one: int) -> Writer:
    """Narrow the interval to this decision's part; settled bytes go out, those that find no room are counted."""
    low, high, at = to
    middle = low + ((high - low) >> 16) * p
    low, high = (low, middle) if one else (middle + 1, high)
    while (low ^ high) >> FIRST_BYTE == 0:
        if at < out.size:
            out[at] = high >> FIRST_BYTE
        at += 1
        low = (low << 8) & TOP
        high = (high << 8) & TOP | 255
    return low, high, at


@compiled
def put_number(to: Writer, out: Array, n: int) -> Writer:
    """n >= 1 in Exp-Golomb code: the number of its bits after the first in unary, then those bits."""
    bits = 0
    while n >> (bits + 1):
        bits += 1
        to = put(to, out, ONE // 2, 1)
    to = put(to, out, ONE // 2, 0)
    for j in range(bits - 1, -1, -1):
        to = put(to, out, ONE // 2, (n >> j) & 1)
    return to


@compiled
def last_shift(low: int, high: int) -> int:
    """Of the fewest bytes that, with zeros after them, lie in the interval: those of high above this shift."""
    shift = FIRST_BYTE + 8
    while (high >> shift) << shift < low:
        shift -= 8
    return shift


@compiled
def finish(to: Writer, out: Array) -> int:
    """The bytes that settle the rest; how many there are in all."""
    low, high, at = to
    shift = last_shift(low, high)
    for byte in range(FIRST_BYTE, shift - 1, -8):
        if at < out.size:
            out[at] = (high >> byte) & 255
        at += 1
    return at


@compiled
def write_integers(q: Array, bounds: Array, lags: Array, out: Array) -> int:
    """How many bytes the integers take; those that fit are in `out`."""
    p, seen = np.full(CONTEXTS, ONE // 2), np.zeros(CONTEXTS, np.int64)
    to = (0, TOP, 0)
    for tensor in range(lags.size):
        begin, lag = bounds[tensor], int(lags[tensor])
        for i in range(begin, bounds[tensor + 1]):
            zero, sign, size = contexts_of(q, i, begin, lag)
            m = abs(q[i])
            to = put(to, out, p[zero], m > 0)
            learn(p, seen, zero, m > 0)
            if m == 0:
                continue
            to = put(to, out, p[sign], q[i] < 0)
            learn(p, seen, sign, q[i] < 0)
            for j in range(1, min(m, UNARY) + 1):
                k = size + min(j, DEPTH) - 1
                to = put(to, out, p[k], m > j)
                learn(p, seen, k, m > j)
            if m > UNARY:
                to = put_number(to, out, m - UNARY)
    return finish(to, out)


# ---------------------------------------------------------------- reading


@compiled
def get(source: Reader, data: Array, p: int) -> tuple[int, Reader]:
    """The decision that `put` wrote with this probability."""
    low, high, at, value = source
    middle = low + ((high - low) >> 16) * p
    one = 1 if value <= middle else 0
    low, high = (low, middle) if one else (middle + 1, high)
    while (low ^ high) >> FIRST_BYTE == 0:
        low = (low << 8) & TOP
        high = (high << 8) & TOP | 255
        value = (value << 8) & TOP | (int(data[at]) if at < data.size else 0)
        at += 1
    return one, (low, high, at, value)


@compiled
def get_number(source: Reader, data: Array) -> tuple[int, Reader]:
    """A number that `put_number` wrote; 2^20 or more for one that it did not."""
    bits, n = 0, 1
    one, source = get(source, data, ONE // 2)
    while one and bits < MOST_BITS:
        bits += 1
        one, source = get(source, data, ONE // 2)
    for _ in range(bits):
        one, source = get(source, data, ONE // 2)
        n = n << 1 | one
    return n, source


@compiled
def opened(data: Array) -> Reader:
    value = 0
    for at in range(7):
        value = value << 8 | (int(data[at]) if at < data.size else 0)
    return 0, TOP, 7, value


@compiled
def read_integers(data: Array, bounds: Array, lags: Array, most: int, q: Array) -> bool:
    """Fill `q`; False if a magnitude is above `most`, or if `write_integers` writes other bytes for it.

    Bytes that have left the interval are those that were written: only the last ones need be compared.
    """
    p, seen = np.full(CONTEXTS, ONE // 2), np.zeros(CONTEXTS, np.int64)
    source = opened(data)
    for tensor in range(lags.size):
        begin, lag = bounds[tensor], int(lags[tensor])
        for i in range(begin, bounds[tensor + 1]):
            zero, sign, size = contexts_of(q, i, begin, lag)
            m, source = get(source, data, p[zero])
            learn(p, seen, zero, m)
            q[i] = 0
            if m == 0:
                continue
            negative, source = get(source, data, p[sign])
            learn(p, seen, sign, negative)
            more = 1
            while more and m <= UNARY:
                k = size + min(m, DEPTH) - 1
                more, source = get(source, data, p[k])
                learn(p, seen, k, more)
                m += more
            if m > UNARY:
                n, source = get_number(source, data)
                m = UNARY + n
            if m > most:
                return False
            q[i] = -m if negative else m
    low, high, at, value = source
    shift = last_shift(low, high)
    return value == (high >> shift) << shift and data.size == at - shift // 8
