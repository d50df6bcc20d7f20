"""One pass over long vectors, element by element, as numba compiles it. Called through `fedpace.kernels`.

Vectors come first, those only read before those written, then the constants. Every loop does the operations
of the rule it serves in the same order, so that the bits are those of the rule's own formula.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedpace.vector import Vector


def add_scaled(v: Vector, total: Vector, factor: float) -> None:
    for i in range(total.size):
        total[i] = total[i] + factor * v[i]


def momentum(
    x: Vector, delta: Vector, b: Vector, out: Vector, lr: float, beta: float, c: float, nu: float, n: float
) -> None:
    """c = 1 - beta, n = 1 - nu."""
    for i in range(x.size):
        b[i] = beta * b[i] + c * delta[i]
        out[i] = x[i] + lr * (n * delta[i] + nu * b[i])


def adam(
    x: Vector,
    delta: Vector,
    m: Vector,
    v: Vector,
    out: Vector,
    lr: float,
    b1: float,
    c1: float,
    b2: float,
    c2: float,
    eps: float,
) -> None:
    """c1 = 1 - b1, c2 = the weight of the new square."""
    for i in range(x.size):
        m[i] = b1 * m[i] + c1 * delta[i]
        v[i] = b2 * v[i] + c2 * (delta[i] * delta[i])
        out[i] = x[i] + lr * m[i] / (math.sqrt(v[i]) + eps)


def yogi(
    x: Vector,
    delta: Vector,
    m: Vector,
    v: Vector,
    out: Vector,
    lr: float,
    b1: float,
    c1: float,
    c2: float,
    eps: float,
) -> None:
    for i in range(x.size):
        m[i] = b1 * m[i] + c1 * delta[i]
        square = delta[i] * delta[i]
        change = c2 * square
        if v[i] > square:
            v[i] = v[i] - change
        elif v[i] < square:
            v[i] = v[i] + change
        out[i] = x[i] + lr * m[i] / (math.sqrt(v[i]) + eps)


def amsgrad(
    x: Vector,
    delta: Vector,
    m: Vector,
    v: Vector,
    v_hat: Vector,
    out: Vector,
    lr: float,
    b1: float,
    c1: float,
    b2: float,
    c2: float,
    floor: float,
    eps: float,
) -> None:
    """`floor` bounds v_hat from below (option 1), `eps` is added under the root (option 2)."""
    for i in range(x.size):
        m[i] = b1 * m[i] + c1 * delta[i]
        v[i] = b2 * v[i] + c2 * (delta[i] * delta[i])
        largest = v[i] if v[i] > v_hat[i] else v_hat[i]
        v_hat[i] = floor if floor > largest else largest
        out[i] = x[i] + lr * m[i] / math.sqrt(v_hat[i] + eps)
