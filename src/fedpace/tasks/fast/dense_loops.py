"""Fully connected networks of ReLUs under softmax cross-entropy: whole sessions as compiled loops.

A step of a small network is a few microseconds of arithmetic, less than one call of a tensor library. Here a
session is one call; batches are read where they lie, and plain SGD adds its gradients straight to the weights.
Blocks of two rows by five samples keep the processor's vector registers full, and every entry of a result
is summed in an order that depends on shapes alone: what else is computed, or where,
changes no bit.

One file, because numba's cache on disk notices changes of a function's own file only.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from fedpace.tasks.fast.compiled import Array, compiled

SAMPLES = 40  # of a batch at a time, so that they stay in the second-level cache


@compiled
def multiply(rows: Array, picks: Array, weights: Array, bias: Array, out: Array) -> None:
    """out[b, j] = <weights[j], rows[picks[b]]> + bias[j]"""
    zero, count, wide = out.dtype.type(0), len(picks), weights.shape[1]
    for first in range(0, count, SAMPLES):
        last = min(first + SAMPLES, count)
        fives = first + (last - first) // 5 * 5
        for j in range(0, len(weights) - 1, 2):
            u, v = weights[j], weights[j + 1]
            for b in range(first, fives, 5):
                r0, r1, r2 = rows[picks[b]], rows[picks[b + 1]], rows[picks[b + 2]]
                r3, r4 = rows[picks[b + 3]], rows[picks[b + 4]]
                u0 = u1 = u2 = u3 = u4 = zero
                v0 = v1 = v2 = v3 = v4 = zero
                for i in range(wide):
                    u0 += u[i] * r0[i]
                    u1 += u[i] * r1[i]
                    u2 += u[i] * r2[i]
                    u3 += u[i] * r3[i]
                    u4 += u[i] * r4[i]
                    v0 += v[i] * r0[i]
                    v1 += v[i] * r1[i]
                    v2 += v[i] * r2[i]
                    v3 += v[i] * r3[i]
                    v4 += v[i] * r4[i]
                out[b, j], out[b, j + 1] = u0 + bias[j], v0 + bias[j + 1]
                out[b + 1, j], out[b + 1, j + 1] = u1 + bias[j], v1 + bias[j + 1]
                out[b + 2, j], out[b + 2, j + 1] = u2 + bias[j], v2 + bias[j + 1]
                out[b + 3, j], out[b + 3, j + 1] = u3 + bias[j], v3 + bias[j + 1]
                out[b + 4, j], out[b + 4, j + 1] = u4 + bias[j], v4 + bias[j + 1]
            for b in range(fives, last):
                r0 = rows[picks[b]]
                u0 = v0 = zero
                for i in range(wide):
                    u0 += u[i] * r0[i]
                    v0 += v[i] * r0[i]
                out[b, j], out[b, j + 1] = u0 + bias[j], v0 + bias[j + 1]
        if len(weights) % 2:
            j = len(weights) - 1
            u = weights[j]
            for b in range(first, last):
                r0 = rows[picks[b]]
                u0 = zero
                for i in range(wide):
                    u0 += u[i] * r0[i]
                out[b, j] = u0 + bias[j]


@compiled
def accumulate(out: Array, factors: Array, rows: Array, picks: Array) -> None:
    """out[j] += sum over b of factors[b, j] * rows[picks[b]]"""
    count, wide = len(picks), out.shape[1]
    for first in range(0, count, SAMPLES):
        last = min(first + SAMPLES, count)
        fives = first + (last - first) // 5 * 5
        for j in range(0, len(out) - 1, 2):
            u, v = out[j], out[j + 1]
            for b in range(first, fives, 5):
                r0, r1, r2 = rows[picks[b]], rows[picks[b + 1]], rows[picks[b + 2]]
                r3, r4 = rows[picks[b + 3]], rows[picks[b + 4]]
                f0, f1, f2 = factors[b, j], factors[b + 1, j], factors[b + 2, j]
                f3, f4 = factors[b + 3, j], factors[b + 4, j]
                g0, g1, g2 = factors[b, j + 1], factors[b + 1, j + 1], factors[b + 2, j + 1]
                g3, g4 = factors[b + 3, j + 1], factors[b + 4, j + 1]
                for i in range(wide):
                    u[i] += f0 * r0[i] + f1 * r1[i] + f2 * r2[i] + f3 * r3[i] + f4 * r4[i]
                    v[i] += g0 * r0[i] + g1 * r1[i] + g2 * r2[i] + g3 * r3[i] + g4 * r4[i]
            for b in range(fives, last):
                r0, f0, g0 = rows[picks[b]], factors[b, j], factors[b, j + 1]
                for i in range(wide):
                    u[i] += f0 * r0[i]
                    v[i] += g0 * r0[i]
        if len(out) % 2:
            j = len(out) - 1
            u = out[j]
            for b in range(first, last):
                r0, f0 = rows[picks[b]], factors[b, j]
                for i in range(wide):
                    u[i] += f0 * r0[i]


@compiled
def in_range(labels: Array, classes: int) -> bool:
    """Whether every label is a class."""
    inside = True
    for label in labels:
        inside &= 0 <= label < classes
    return inside


@compiled
def rectify(values: Array) -> None:
    for row in values:
        for i in range(len(row)):
            if row[i] < 0:  # not max(0, .): a nan stays one
                row[i] = 0


@compiled
def softmax_errors(outputs: Array, labels: Array, picks: Array, errors: Array) -> None:
    """errors[b] = softmax(outputs[b]) minus the one-hot label of sample picks[b]: the gradient of the loss."""
    for b in range(len(picks)):
        row, out = outputs[b], errors[b]
        top, total = row.max(), row.dtype.type(0)
        for c in range(len(row)):
            out[c] = math.exp(row[c] - top)
            total += out[c]
        for c in range(len(row)):
            out[c] /= total
        out[labels[picks[b]]] -= 1


class Shape(NamedTuple):
    """A network: the sizes of its inputs, hidden layers and outputs, and where things lie."""

    widths: Array
    begins: Array  # of each layer's weights in the flat vector; its bias follows them
    before: Array  # units of the layers below, without the inputs


class Scratch(NamedTuple):
    """Memory for one batch."""

    outputs: Array  # of all layers
    errors: Array  # the gradient of the loss with respect to them
    turned: Array  # the errors of one layer, transposed
    numbers: Array  # 0, 1, 2, ...


@compiled
def layer(vector: Array, shape: Shape, k: int) -> tuple[Array, Array]:
    """Weights and bias of layer k as views of a flat vector."""
    inner, outer, at = shape.widths[k], shape.widths[k + 1], shape.begins[k]
    middle = at + inner * outer
    return vector[at:middle].reshape((outer, inner)), vector[middle : middle + outer]


@compiled
def units(memory: Array, shape: Shape, k: int, count: int) -> Array:
    """What belongs to the units of layer k, one row per sample."""
    wide, at = shape.widths[k + 1], count * shape.before[k]
    return memory[at : at + count * wide].reshape((count, wide))


@compiled
def forward(y: Array, shape: Shape, rows: Array, picks: Array, scratch: Scratch) -> None:
    """The outputs of all layers."""
    count, last = len(picks), len(shape.begins) - 1
    below, chosen = rows, picks
    for k in range(last + 1):
        weights, bias = layer(y, shape, k)
        out = units(scratch.outputs, shape, k, count)
        multiply(below, chosen, weights, bias, out)
        if k < last:
            rectify(out)
        below, chosen = out, scratch.numbers[:count]


@compiled
def backward(weights: Array, errors: Array, below: Array, turned: Array, numbers: Array) -> None:
    """below = errors @ weights."""
    count, outer = errors.shape
    across = turned[: count * outer].reshape((outer, count))
    for b in range(count):
        for j in range(outer):
            across[j, b] = errors[b, j]
    below[:] = 0
    accumulate(below, across, weights, numbers[:outer])


@compiled
def block(errors: Array, active: Array) -> None:
    """No error passes a unit that was at rest."""
    for b in range(len(errors)):
        for i in range(errors.shape[1]):
            if active[b, i] <= 0:
                errors[b, i] = 0


@compiled
def add_gradient(
    into: Array, shape: Shape, k: int, errors: Array, scale: float, rows: Array, picks: Array
) -> None:
    """into += scale * the gradient of layer k; `errors` is scaled on the way."""
    weights, bias = layer(into, shape, k)
    for b in range(len(errors)):
        for j in range(errors.shape[1]):
            errors[b, j] *= scale
            bias[j] += errors[b, j]
    accumulate(weights, errors, rows, picks)


@compiled
def add_gradients(
    y: Array,
    into: Array,
    shape: Shape,
    rows: Array,
    picks: Array,
    labels: Array,
    scale: float,
    scratch: Scratch,
    input_errors: Array,
) -> None:
    """into += scale * the gradient at y of the loss summed over the batch `picks`.

    `into` may be `y` itself: a layer's weights change only after they were last read. Unless it is empty,
    `input_errors` receives the gradient with respect to the inputs.
    """
    count, last = len(picks), len(shape.begins) - 1
    forward(y, shape, rows, picks, scratch)
    errors = units(scratch.errors, shape, last, count)
    softmax_errors(units(scratch.outputs, shape, last, count), labels, picks, errors)
    for k in range(last, 0, -1):
        weights, _ = layer(y, shape, k)
        below, active = (
            units(scratch.errors, shape, k - 1, count),
            units(scratch.outputs, shape, k - 1, count),
        )
        backward(weights, errors, below, scratch.turned, scratch.numbers)
        block(below, active)
        add_gradient(into, shape, k, errors, scale, active, scratch.numbers[:count])
        errors = below
    if input_errors.size:
        weights, _ = layer(y, shape, 0)
        backward(weights, errors, input_errors, scratch.turned, scratch.numbers)
    add_gradient(into, shape, 0, errors, scale, rows, picks)


class Rule(NamedTuple):
    """What a step does with its gradient; numbers are of the vectors' type, vectors not needed are empty."""

    clip: float  # 0: none
    weight_decay: float
    momentum: float
    nesterov: bool
    prox_mu: float
    correction: Array
    buffer: Array
    start: Array


@compiled
def move(y: Array, g: Array, rate: float, rule: Rule) -> None:
    """One step of `fedpace.local.SGD` from y along g, which is written to."""
    if rule.clip > 0:
        shorten(g, rule.clip)
    if rule.weight_decay > 0:
        add(g, rule.weight_decay, y)
    if rule.correction.size:
        add(g, y.dtype.type(1), rule.correction)
    if rule.buffer.size:
        for i in range(y.size):
            rule.buffer[i] = rule.momentum * rule.buffer[i] + g[i]
            g[i] = g[i] + rule.momentum * rule.buffer[i] if rule.nesterov else rule.buffer[i]
    if rule.start.size:
        for i in range(y.size):
            y[i] -= rate * (g[i] + rule.prox_mu * (y[i] - rule.start[i]))
    else:
        add(y, -rate, g)


@compiled
def add(total: Array, factor: float, v: Array) -> None:
    for i in range(total.size):
        total[i] += factor * v[i]


@compiled
def shorten(g: Array, length: float) -> None:
    """g, no longer than `length`."""
    square = 0.0
    for value in g:
        square += value * value
    if square > length * length:
        factor = g.dtype.type(length / math.sqrt(square))
        for i in range(g.size):
            g[i] *= factor


@compiled
def descend(
    y: Array,
    gradient: Array,
    shape: Shape,
    rows: Array,
    labels: Array,
    order: Array,
    ends: Array,
    rates: Array,
    rule: Rule,
    scratch: Scratch,
) -> None:
    """Move y by one step per batch: order[ends[k - 1]:ends[k]] is batch k. No `gradient`: plain SGD."""
    no_errors, low = rows[:0], 0
    for k in range(len(rates)):
        picks, low = order[low : ends[k]], ends[k]
        each = y.dtype.type(1 / len(picks))
        if gradient.size:
            gradient[:] = 0
            add_gradients(y, gradient, shape, rows, picks, labels, each, scratch, no_errors)
            move(y, gradient, rates[k], rule)
        else:
            add_gradients(y, y, shape, rows, picks, labels, -rates[k] * each, scratch, no_errors)
