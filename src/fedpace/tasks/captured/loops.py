"""Operations that torch does in more passes over memory than they need, as compiled loops in single precision.

Rows are samples, or places in an image or a text; the last axis is contiguous everywhere. Every sum has an order
that depends on shapes alone. One file, because numba's cache on disk notices changes of a function's own file only.
"""

from __future__ import annotations

import math

import numpy as np

from fedpace.tasks.fast.compiled import Array, compiled

f32 = np.float32
ZERO, ONE = f32(0), f32(1)
BLOCK = 256  # numbers that an inner loop works on at least, where channels are fewer


@compiled
def add(x: Array, y: Array, out: Array) -> None:
    for i in range(out.size):
        out[i] = x[i] + y[i]


@compiled
def active(x: Array, out: Array) -> None:
    """out = max(x, 0); a nan stays one"""
    for i in range(out.size):
        value = x[i]
        out[i] = ZERO if value < ZERO else value


@compiled
def where_active(errors: Array, reached: Array, out: Array) -> None:
    """The errors where a ReLU let something through, 0 elsewhere."""
    for i in range(out.size):
        error = errors[i]  # read in any case, so that the loop needs no branch
        out[i] = error if reached[i] > ZERO else ZERO


@compiled
def sum_rows(x: Array, out: Array) -> None:
    """out = the sum of the rows, four at a time"""
    out[:] = ZERO
    fours = len(x) // 4 * 4
    for b in range(0, fours, 4):
        r0, r1, r2, r3 = x[b], x[b + 1], x[b + 2], x[b + 3]
        for i in range(out.size):
            out[i] += (r0[i] + r1[i]) + (r2[i] + r3[i])
    for b in range(fours, len(x)):
        row = x[b]
        for i in range(out.size):
            out[i] += row[i]


@compiled
def layer_norm(x: Array, gain: Array, shift: Array, epsilon: float, out: Array, mean: Array, steep: Array) -> None:
    wide, eps = f32(x.shape[1]), f32(epsilon)
    for b in range(len(x)):
        row, target = x[b], out[b]
        total = square = ZERO
        for i in range(row.size):
            total += row[i]
        total /= wide
        for i in range(row.size):
            square += (row[i] - total) * (row[i] - total)
        scale = ONE / math.sqrt(square / wide + eps)
        mean[b], steep[b] = total, scale
        for i in range(row.size):
            target[i] = (row[i] - total) * scale * gain[i] + shift[i]


@compiled
def layer_norm_back(
    errors: Array, x: Array, mean: Array, steep: Array, gain: Array, below: Array, gains: Array, shifts: Array
) -> None:
    wide = f32(x.shape[1])
    gains[:] = ZERO
    shifts[:] = ZERO
    for b in range(len(x)):
        row, error, target, middle, scale = x[b], errors[b], below[b], mean[b], steep[b]
        along = across = ZERO
        for i in range(row.size):
            unit, e = (row[i] - middle) * scale, error[i]
            gains[i] += e * unit
            shifts[i] += e
            along += e * gain[i]
            across += e * gain[i] * unit
        along, across = along / wide, across / wide
        for i in range(row.size):
            target[i] = scale * (error[i] * gain[i] - along - (row[i] - middle) * scale * across)


@compiled
def fold(blocks: Array, channels: int) -> None:
    """The sums of a block's channels, in its first ones."""
    for at in range(channels, blocks.size, channels):
        for c in range(channels):
            blocks[c] += blocks[at + c]


@compiled
def spread(blocks: Array, channels: int) -> None:
    """The first channels of a block in all others."""
    for i in range(channels, blocks.size):
        blocks[i] = blocks[i - channels]


@compiled
def group_norm(
    x: Array, gain: Array, shift: Array, epsilon: float, least: float, out: Array, mean: Array, steep: Array
) -> None:
    """Of images as rows of numbers, channels last; outputs below `least` become it (0: a ReLU follows)."""
    channels, groups, size = gain.size, mean.shape[1], x.shape[1]
    each, floor = channels // groups, f32(least)
    wide = channels * max(1, BLOCK // channels)
    total, square = np.empty(wide, f32), np.empty(wide, f32)
    for n in range(len(x)):
        total[:] = ZERO
        square[:] = ZERO
        for at in range(0, size, wide):
            part = x[n, at : at + wide]
            for i in range(part.size):
                total[i] += part[i]
                square[i] += part[i] * part[i]
        fold(total, channels)
        fold(square, channels)
        for g in range(groups):
            first, second, count = 0.0, 0.0, each * (size // channels)
            for c in range(g * each, (g + 1) * each):
                first += total[c]
                second += square[c]
            middle = first / count
            scale = 1 / math.sqrt(max(second / count - middle * middle, 0.0) + epsilon)
            mean[n, g], steep[n, g] = middle, scale
            for c in range(g * each, (g + 1) * each):
                total[c] = gain[c] * f32(scale)
                square[c] = shift[c] - f32(middle) * total[c]
        spread(total, channels)
        spread(square, channels)
        for at in range(0, size, wide):
            part, target = x[n, at : at + wide], out[n, at : at + wide]
            for i in range(part.size):
                value = part[i] * total[i] + square[i]
                target[i] = floor if value < floor else value


@compiled
def group_norm_back(
    errors: Array,
    reached: Array,
    x: Array,
    mean: Array,
    steep: Array,
    gain: Array,
    below: Array,
    gains: Array,
    shifts: Array,
) -> None:
    """The way back; where `reached` is not empty, errors count where it is above zero.

    A loop writes to one array, which it does not read otherwise: only then are eight numbers done at a time.
    """
    channels, groups, size = gain.size, mean.shape[1], x.shape[1]
    each, masked = channels // groups, len(reached) > 0
    wide = channels * max(1, BLOCK // channels)
    with_x, alone = np.empty(wide, f32), np.empty(wide, f32)
    slope, aside = np.empty(wide, f32), np.empty(wide, f32)
    gains[:] = ZERO
    shifts[:] = ZERO
    for n in range(len(x)):
        with_x[:] = ZERO
        alone[:] = ZERO
        for at in range(0, size, wide):
            part, error = x[n, at : at + wide], errors[n, at : at + wide]
            if masked:
                where_active(error, reached[n, at : at + wide], aside[: part.size])
                error = aside
            for i in range(part.size):
                with_x[i] += error[i] * part[i]
            for i in range(part.size):
                alone[i] += error[i]
        fold(with_x, channels)
        fold(alone, channels)
        for g in range(groups):
            middle, scale, count = mean[n, g], steep[n, g], f32(each * (size // channels))
            first = second = ZERO
            for c in range(g * each, (g + 1) * each):
                first += with_x[c] * gain[c]
                second += alone[c] * gain[c]
            bend = (second * middle - first) * scale * scale * scale / count
            level = -bend * middle - second * scale / count
            for c in range(g * each, (g + 1) * each):
                gains[c] += (with_x[c] - alone[c] * middle) * scale
                shifts[c] += alone[c]
                slope[c], with_x[c], alone[c] = gain[c] * scale, bend, level
        spread(slope, channels)
        spread(with_x, channels)
        spread(alone, channels)
        for at in range(0, size, wide):
            part, error, target = x[n, at : at + wide], errors[n, at : at + wide], below[n, at : at + wide]
            if masked:
                where_active(error, reached[n, at : at + wide], aside[: part.size])
                error = aside
            for i in range(part.size):
                target[i] = error[i] * slope[i] + part[i] * with_x[i] + alone[i]


@compiled
def take_rows(table: Array, picks: Array, out: Array) -> None:
    for b in range(picks.size):
        if not 0 <= picks[b] < len(table):
            raise IndexError("index out of range in an embedding")
        out[b] = table[picks[b]]


@compiled
def add_rows(errors: Array, picks: Array, out: Array) -> None:
    """The way back; `take_rows` has seen that all picks are in range."""
    out[:] = ZERO
    for b in range(picks.size):
        row, target = errors[b], out[picks[b]]
        for i in range(row.size):
            target[i] += row[i]
