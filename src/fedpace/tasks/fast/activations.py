"""Activations and layer normalisation, there and back, as compiled loops."""

from __future__ import annotations

import math
from typing import NamedTuple

from fedpace.tasks.fast.compiled import Array, compiled

# kinds of layers
COPY, LINEAR, RELU, LEAKY, TANH, SIGMOID, GELU, GELU_TANH, NORM, DROPOUT, BARE_NORM = range(11)

LOG2_E, LN_2 = 1.4426950408889634, 0.6931471805599453
FAR = 44.0  # exp(-44) is nothing beside 1, in double precision too
ROOT_HALF, ROOT_2_PI = 0.7071067811865476, 2.5066282746310002
TANH_1, TANH_3 = 0.7978845608028654, 0.044715  # of GELU's approximation


class LayerMemory(NamedTuple):
    """For one batch."""

    outputs: Array  # of all layers
    errors: Array  # the gradient of the loss with respect to them
    turned: Array  # the errors of one layer, transposed
    powers: Array  # of two
    bits: Array  # the same memory, as whole numbers
    order: Array  # 0, 1, 2, ...
    zeros: Array
    ones: Array


@compiled
def decays(x: Array, factor: float, memory: LayerMemory, out: Array) -> None:
    """out = exp(-factor * |x|) - 1, by powers of two and the exponential series; every step is done eight at a time."""
    number, wide = out.dtype.type, memory.bits.itemsize
    bias, shift = (127, 23) if wide == 4 else (1023, 52)
    far, scale, half, one = number(FAR), number(factor), number(0.5), number(1)
    log2_e, ln_2 = number(LOG2_E), number(LN_2)
    for i in range(out.size):
        size = scale * abs(x[i])
        size = far if size > far else size  # a nan stays one
        whole = math.floor(half - size * log2_e)
        r = -size - number(whole) * ln_2
        memory.bits[i] = (int(whole) + bias) << shift
        series = number(1 / 6227020800)
        series = series * r + number(1 / 479001600)
        series = series * r + number(1 / 39916800)
        series = series * r + number(1 / 3628800)
        series = series * r + number(1 / 362880)
        series = series * r + number(1 / 40320)
        series = series * r + number(1 / 5040)
        series = series * r + number(1 / 720)
        series = series * r + number(1 / 120)
        series = series * r + number(1 / 24)
        series = series * r + number(1 / 6)
        series = series * r + half
        out[i] = (series * r + one) * r
    for i in range(out.size):
        out[i] = memory.powers[i] * out[i] + (memory.powers[i] - one)


@compiled
def tanh(x: Array, memory: LayerMemory, out: Array) -> None:
    decays(x, 2.0, memory, out)
    two = out.dtype.type(2)
    for i in range(out.size):
        t = -out[i] / (two + out[i])
        out[i] = -t if x[i] < 0 else t


@compiled
def sigmoid(x: Array, memory: LayerMemory, out: Array) -> None:
    decays(x, 1.0, memory, out)
    one, two = out.dtype.type(1), out.dtype.type(2)
    for i in range(out.size):
        t = one / (two + out[i])
        out[i] = one - t if x[i] < 0 else t


@compiled
def gelu(x: Array, out: Array) -> None:
    half = out.dtype.type(0.5)
    for i in range(out.size):
        out[i] = half * x[i] * out.dtype.type(1 + math.erf(x[i] * ROOT_HALF))


@compiled
def gelu_tanh(x: Array, memory: LayerMemory, out: Array) -> None:
    a, b, half = out.dtype.type(TANH_1), out.dtype.type(TANH_3), out.dtype.type(0.5)
    for i in range(out.size):
        memory.turned[i] = a * (x[i] + b * x[i] * x[i] * x[i])
    tanh(memory.turned[: out.size], memory, out)
    for i in range(out.size):
        out[i] = half * x[i] * (1 + out[i])


@compiled
def leaky(x: Array, slope: float, out: Array) -> None:
    for i in range(out.size):
        out[i] = x[i] * slope if x[i] < 0 else x[i]


@compiled
def moments(row: Array, epsilon: float) -> tuple[float, float]:
    """The mean of a row, and one over its deviation."""
    mean = square = row.dtype.type(0)
    for i in range(row.size):
        mean += row[i]
    mean /= row.dtype.type(row.size)
    for i in range(row.size):
        square += (row[i] - mean) * (row[i] - mean)
    return mean, row.dtype.type(1 / math.sqrt(square / row.size + epsilon))


@compiled
def normalise(x: Array, gain: Array, shift: Array, epsilon: float, out: Array) -> None:
    """Each row to mean 0 and variance 1, then gain and shift."""
    for b in range(len(x)):
        row, target = x[b], out[b]
        mean, steep = moments(row, epsilon)
        for i in range(row.size):
            target[i] = (row[i] - mean) * steep * gain[i] + shift[i]


@compiled
def slopes(
    kind: int, number: float, x: Array, out: Array, memory: LayerMemory, errors: Array, below: Array
) -> None:
    """below = errors times the derivative of an activation with inputs x and outputs `out`."""
    one = out.dtype.type(1)
    if kind in (RELU, LEAKY):
        for i in range(out.size):
            below[i] = errors[i] if x[i] > 0 else errors[i] * number
    elif kind == TANH:
        for i in range(out.size):
            below[i] = errors[i] * (one - out[i] * out[i])
    elif kind == SIGMOID:
        for i in range(out.size):
            below[i] = errors[i] * out[i] * (one - out[i])
    elif kind == GELU:
        for i in range(out.size):
            bell = math.exp(-0.5 * x[i] * x[i]) / ROOT_2_PI
            below[i] = errors[i] * out.dtype.type(0.5 * (1 + math.erf(x[i] * ROOT_HALF)) + x[i] * bell)
    else:
        a, b, half = out.dtype.type(TANH_1), out.dtype.type(TANH_3), out.dtype.type(0.5)
        for i in range(out.size):
            memory.turned[i] = a * (x[i] + b * x[i] * x[i] * x[i])
        tanh(memory.turned[: out.size], memory, below)
        for i in range(out.size):
            t = below[i]
            steep = a * (one + 3 * b * x[i] * x[i])
            below[i] = errors[i] * half * (one + t + x[i] * (one - t * t) * steep)


@compiled
def unnormalise(
    x: Array, gain: Array, into: Array, epsilon: float, errors: Array, below: Array, sums: Array
) -> None:
    """below = the errors of the inputs; those of gain and shift, where there are any, are added to `into` in turn.

    `into` may be where the gain is: sums are made aside first.
    """
    zero, wide = errors.dtype.type(0), x.shape[1]
    sums[:] = 0
    for b in range(len(x)):
        row, error, target = x[b], errors[b], below[b]
        mean, steep = moments(row, epsilon)
        along = across = zero
        for i in range(wide):
            unit = (row[i] - mean) * steep
            sums[i] += error[i] * unit
            sums[wide + i] += error[i]
            along += error[i] * gain[i]
            across += error[i] * gain[i] * unit
        for i in range(wide):
            unit = (row[i] - mean) * steep
            target[i] = steep * (error[i] * gain[i] - along / wide - unit * (across / wide))
    for i in range(into.size):
        into[i] += sums[i]
