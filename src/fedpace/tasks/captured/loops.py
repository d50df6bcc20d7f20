"""Short operations as compiled loops in single precision.

What torch spends on them is mostly the way there. Rows are samples, or places in a text. Every sum has an order that
depends on shapes alone. One file, because numba's cache on disk notices changes of a function's own file only.
"""

from __future__ import annotations

import math

import numpy as np

from fedpace.tasks.fast.compiled import Array, compiled, inlined

f32 = np.float32
ZERO, ONE = f32(0), f32(1)


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
def layer_norm(
    x: Array, gain: Array, shift: Array, epsilon: float, out: Array, mean: Array, steep: Array
) -> None:
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


@inlined
def _fold(sums: Array, channels: int) -> None:
    """Sums of several pixels side by side to those of one."""
    for i in range(channels, sums.size):
        sums[i % channels] += sums[i]


@compiled
def group_norm(
    x: Array, gain: Array, shift: Array, epsilon: float, out: Array, mean: Array, steep: Array, work: Array
) -> None:
    """Images with channels last: (samples, pixels, channels); mean and steep are (samples, groups).

    A row of `work` is as wide as some pixels: loops over the few channels of one are too short to be fast.
    """
    channels, wide, groups = x.shape[2], work.shape[1], mean.shape[1]
    each = channels // groups
    count = f32(x.shape[1] * each)
    total, scale, offset = work[0], work[1], work[2]
    for n in range(len(x)):
        row, target = x[n].reshape(-1), out[n].reshape(-1)
        total[:] = ZERO
        for at in range(0, row.size, wide):
            part = row[at : at + wide]
            for i in range(wide):
                total[i] += part[i]
        _fold(total, channels)
        for g in range(groups):
            mean[n, g] = total[g * each : (g + 1) * each].sum() / count
        for i in range(wide):
            offset[i] = mean[n, i % channels // each]
        total[:] = ZERO
        for at in range(0, row.size, wide):
            part = row[at : at + wide]
            for i in range(wide):
                total[i] += (part[i] - offset[i]) * (part[i] - offset[i])
        _fold(total, channels)
        for g in range(groups):
            square = total[g * each : (g + 1) * each].sum() / count
            steep[n, g] = ONE / math.sqrt(square + f32(epsilon))
        for i in range(wide):
            scale[i] = steep[n, i % channels // each] * gain[i % channels]
            offset[i] = shift[i % channels] - offset[i] * scale[i]
        for at in range(0, row.size, wide):
            part, to = row[at : at + wide], target[at : at + wide]
            for i in range(wide):
                to[i] = part[i] * scale[i] + offset[i]


@compiled
def group_norm_back(
    errors: Array,
    x: Array,
    mean: Array,
    steep: Array,
    gain: Array,
    below: Array,
    gains: Array,
    shifts: Array,
    work: Array,
) -> None:
    """below = a errors + b x + c, where a has a number for every channel, b and c for every group of a sample."""
    channels, wide, groups = x.shape[2], work.shape[1], mean.shape[1]
    each = channels // groups
    count = f32(x.shape[1] * each)
    a, b, c = work[0], work[1], work[2]
    gains[:] = ZERO
    shifts[:] = ZERO
    for n in range(len(x)):
        row, error, target = x[n].reshape(-1), errors[n].reshape(-1), below[n].reshape(-1)
        a[:] = ZERO
        c[:] = ZERO
        for at in range(0, row.size, wide):
            part, e = row[at : at + wide], error[at : at + wide]
            for i in range(wide):
                c[i] += e[i]
                a[i] += e[i] * part[i]
        _fold(a, channels)
        _fold(c, channels)
        for i in range(channels):
            g = i // each
            a[i] = (a[i] - mean[n, g] * c[i]) * steep[n, g]
            gains[i] += a[i]
            shifts[i] += c[i]
        for g in range(groups):
            along = across = ZERO
            for i in range(g * each, (g + 1) * each):
                along += gain[i] * c[i]
                across += gain[i] * a[i]
            scale = steep[n, g]
            slope = -scale * scale * across / count
            for i in range(g * each, (g + 1) * each):
                a[i], b[i] = scale * gain[i], slope
                c[i] = -scale * along / count - slope * mean[n, g]
        for i in range(channels, wide):
            a[i], b[i], c[i] = a[i - channels], b[i - channels], c[i - channels]
        for at in range(0, row.size, wide):
            part, e, to = row[at : at + wide], error[at : at + wide], target[at : at + wide]
            for i in range(wide):
                to[i] = a[i] * e[i] + b[i] * part[i] + c[i]


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
