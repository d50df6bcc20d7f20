"""Fully connected networks of many kinds of layers as compiled loops; the products are those of `dense_loops`.

A network is a list of layers, each with its own outputs in memory. A session, or a part of it, is one call. numba's
cache on disk notices changes of this file only: after a change of `dense_loops` or `activations`, clear it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fedpace.tasks.fast.activations import (
    BARE_NORM,
    COPY,
    DROPOUT,
    GELU,
    GELU_TANH,
    LEAKY,
    LINEAR,
    NORM,
    RELU,
    SIGMOID,
    TANH,
    LayerMemory,
    gelu,
    gelu_tanh,
    leaky,
    normalise,
    sigmoid,
    slopes,
    tanh,
    unnormalise,
)
from fedpace.tasks.fast.compiled import Array, compiled, inlined
from fedpace.tasks.fast.dense_loops import Rule, accumulate, backward, move, multiply

# kinds of losses
CROSS_ENTROPY, SQUARED, LOGITS, PROBABILITIES = range(4)

LEAST = 1e-12  # torch's guard in the gradient of binary cross-entropy


class Layers(NamedTuple):
    """A network; arrays with one entry per layer."""

    kinds: Array
    widths: Array  # and, first, that of the inputs
    begins: Array  # of its parameters in the flat vector; a bias follows its weights
    biased: Array
    numbers: Array  # the slope of LEAKY, the epsilon of NORM and BARE_NORM, 1 / (1 - p) of DROPOUT
    before: Array  # outputs of the layers below, per sample


class Target(NamedTuple):
    """What the outputs should be, per sample; the one that is not needed is empty."""

    loss: int
    smoothing: float
    labels: Array
    values: Array


@inlined
def part(vector: Array, begin: int, size: int) -> Array:
    return vector[begin : begin + size]


@inlined
def outputs(memory: Array, layers: Layers, k: int, count: int) -> Array:
    """What belongs to the outputs of layer k, sample after sample."""
    return part(memory, count * layers.before[k], count * layers.widths[k + 1])


@inlined
def rows_of(values: Array, count: int) -> Array:
    return values.reshape((count, values.size // count))


@inlined
def enter(
    y: Array, layers: Layers, k: int, rows: Array, picks: Array, memory: LayerMemory, masks: Array, out: Array
) -> None:
    """The outputs of layer k, from those below; from the samples themselves for the first."""
    kind, count = layers.kinds[k], len(picks)
    inner, outer, at = layers.widths[k], layers.widths[k + 1], layers.begins[k]
    if kind == COPY:
        for b in range(count):
            rows_of(out, count)[b] = rows[picks[b]]
    elif kind == LINEAR:
        weights = part(y, at, inner * outer).reshape((outer, inner))
        bias = part(y, at + inner * outer, outer) if layers.biased[k] else memory.zeros[:outer]
        multiply(rows, picks, weights, bias, rows_of(out, count))
    else:
        below = rows.reshape(rows.size)
        if kind in (RELU, LEAKY):
            leaky(below, layers.numbers[k], out)
        elif kind == TANH:
            tanh(below, memory, out)
        elif kind == SIGMOID:
            sigmoid(below, memory, out)
        elif kind == GELU:
            gelu(below, out)
        elif kind == GELU_TANH:
            gelu_tanh(below, memory, out)
        elif kind in (NORM, BARE_NORM):
            gain = part(y, at, outer) if kind == NORM else memory.ones[:outer]
            shift = part(y, at + outer, outer) if layers.biased[k] else memory.zeros[:outer]
            normalise(rows, gain, shift, layers.numbers[k], rows_of(out, count))
        else:
            for i in range(out.size):
                out[i] = below[i] * masks[i] * layers.numbers[k]


@inlined
def forward(y: Array, layers: Layers, rows: Array, picks: Array, memory: LayerMemory, masks: Array) -> None:
    """The outputs of all layers; each dropout uses up its own part of the masks."""
    count, used = len(picks), 0
    below, chosen = rows, picks
    for k in range(len(layers.kinds)):
        out = outputs(memory.outputs, layers, k, count)
        enter(y, layers, k, below, chosen, memory, masks[used:], out)
        used += out.size * (layers.kinds[k] == DROPOUT)
        below, chosen = rows_of(out, count), memory.order[:count]


@inlined
def loss_errors(out: Array, target: Target, picks: Array, scale: float, errors: Array) -> None:
    """errors = scale * the gradient, with respect to the outputs, of the loss summed over the batch."""
    number = out.dtype.type
    wide = out.shape[1]
    if target.loss == CROSS_ENTROPY:
        spread = number(target.smoothing / wide)
        for b in range(len(picks)):
            row, error = out[b], errors[b]
            top, total = row.max(), number(0)
            for c in range(wide):
                error[c] = math.exp(row[c] - top)
                total += error[c]
            for c in range(wide):
                error[c] = scale * (error[c] / total - spread)
            error[target.labels[picks[b]]] -= scale * number(1 - target.smoothing)
    else:
        each = scale / number(wide)
        for b in range(len(picks)):
            row, error, value = out[b], errors[b], target.values[picks[b]]
            for c in range(wide):
                if target.loss == SQUARED:
                    error[c] = each * 2 * (row[c] - value[c])
                elif target.loss == LOGITS:
                    error[c] = each * (1 / (1 + number(math.exp(-row[c]))) - value[c])
                else:
                    error[c] = each * (row[c] - value[c]) / max(number(LEAST), row[c] * (1 - row[c]))


@inlined
def leave(
    y: Array,
    into: Array,
    layers: Layers,
    k: int,
    rows: Array,
    picks: Array,
    memory: LayerMemory,
    masks: Array,
    below: Array,
) -> None:
    """The errors below layer k, unless `below` is empty, and the gradient of its parameters added to `into`."""
    kind, count = layers.kinds[k], len(picks)
    inner, outer, at = layers.widths[k], layers.widths[k + 1], layers.begins[k]
    out = outputs(memory.outputs, layers, k, count)
    errors = outputs(memory.errors, layers, k, count)
    if kind == LINEAR:
        if below.size:
            weights = part(y, at, inner * outer).reshape((outer, inner))
            backward(weights, rows_of(errors, count), rows_of(below, count), memory.turned, memory.order)
        accumulate(part(into, at, inner * outer).reshape((outer, inner)), rows_of(errors, count), rows, picks)
        if layers.biased[k]:
            bias = part(into, at + inner * outer, outer)
            for error in rows_of(errors, count):
                for j in range(outer):
                    bias[j] += error[j]
    elif kind in (NORM, BARE_NORM):
        gain = part(y, at, outer) if kind == NORM else memory.ones[:outer]
        own = part(into, at, outer * ((kind == NORM) + layers.biased[k]))
        sums = memory.turned[: 2 * outer]
        unnormalise(rows, gain, own, layers.numbers[k], rows_of(errors, count), rows_of(below, count), sums)
    elif kind == DROPOUT:
        for i in range(out.size):
            below[i] = errors[i] * masks[i] * layers.numbers[k]
    elif kind != COPY:
        slopes(kind, layers.numbers[k], rows.reshape(rows.size), out, memory, errors, below)


@inlined
def add_gradients(
    y: Array,
    into: Array,
    layers: Layers,
    rows: Array,
    picks: Array,
    target: Target,
    scale: float,
    memory: LayerMemory,
    masks: Array,
) -> None:
    """into += scale * the gradient at y of the loss summed over the batch. `into` may be `y` itself."""
    count, last = len(picks), len(layers.kinds) - 1
    forward(y, layers, rows, picks, memory, masks)
    out = rows_of(outputs(memory.outputs, layers, last, count), count)
    loss_errors(out, target, picks, scale, rows_of(outputs(memory.errors, layers, last, count), count))
    left = masks.size
    for k in range(last, -1, -1):
        left -= count * layers.widths[k + 1] * (layers.kinds[k] == DROPOUT)
        inputs, chosen, below = rows, picks, memory.errors[:0]
        if k:
            inputs, chosen = (
                rows_of(outputs(memory.outputs, layers, k - 1, count), count),
                memory.order[:count],
            )
            below = outputs(memory.errors, layers, k - 1, count)
        leave(y, into, layers, k, inputs, chosen, memory, masks[left:], below)


@compiled
def descend(
    y: Array,
    gradient: Array,
    layers: Layers,
    rows: Array,
    target: Target,
    order: Array,
    ends: Array,
    rates: Array,
    rule: Rule,
    memory: LayerMemory,
    masks: Array,
) -> None:
    """Move y by one step per batch, as `dense_loops.descend` does; every batch uses up its own part of the masks."""
    low, used = 0, 0
    units = np.sum(layers.widths[1:] * (layers.kinds == DROPOUT))
    for k in range(len(rates)):
        picks, low = order[low : ends[k]], ends[k]
        own = masks[used : used + units * len(picks)]
        used += own.size
        scale = y.dtype.type(1 / len(picks))
        if gradient.size:
            gradient[:] = 0
        else:
            scale *= -rates[k]
        into = gradient if gradient.size else y
        add_gradients(y, into, layers, rows, picks, target, scale, memory, own)
        if gradient.size:
            move(y, gradient, rates[k], rule)
