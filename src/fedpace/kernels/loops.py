"""One pass over long vectors, element by element, as numba compiles it. Called through `fedpace.kernels`.

Vectors come first, those only read before those written, then a tuple of constants, last of them the largest
finite number of the vectors' type. Every loop does the operations of the rule it serves in the same order, so that
it is bit-identical to the rule's own formula. A loop returns how many entries it wrote that are not finite: the check
costs nothing in the pass that writes them, and a pass of its own afterwards.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedpace.vector import Vector

    Given = tuple[float, ...]


def add_scaled(v: Vector, total: Vector, given: Given) -> int:
    factor, largest = given
    bad = 0
    for i in range(total.size):
        total[i] = total[i] + factor * v[i]
        if not abs(total[i]) <= largest:
            bad += 1
    return bad


def momentum(x: Vector, delta: Vector, b: Vector, b_next: Vector, out: Vector, given: Given) -> int:
    """c = 1 - beta, n = 1 - nu."""
    lr, beta, c, nu, n, largest = given
    bad = 0
    for i in range(x.size):
        b_next[i] = beta * b[i] + c * delta[i]
        out[i] = x[i] + lr * (n * delta[i] + nu * b_next[i])
        if not (abs(b_next[i]) <= largest and abs(out[i]) <= largest):
            bad += 1
    return bad


def adam(
    x: Vector, delta: Vector, m: Vector, v: Vector, m_next: Vector, v_next: Vector, out: Vector, given: Given
) -> int:
    """c1 = 1 - b1, c2 = the weight of the new square."""
    lr, b1, c1, b2, c2, eps, largest = given
    bad = 0
    for i in range(x.size):
        m_next[i] = b1 * m[i] + c1 * delta[i]
        v_next[i] = b2 * v[i] + c2 * (delta[i] * delta[i])
        out[i] = x[i] + lr * m_next[i] / (math.sqrt(v_next[i]) + eps)
        if not (abs(m_next[i]) <= largest and v_next[i] <= largest and abs(out[i]) <= largest):
            bad += 1
    return bad


def yogi(
    x: Vector, delta: Vector, m: Vector, v: Vector, m_next: Vector, v_next: Vector, out: Vector, given: Given
) -> int:
    """c1 = 1 - b1, c2 = 1 - b2."""
    lr, b1, c1, c2, eps, largest = given
    bad = 0
    for i in range(x.size):
        m_next[i] = b1 * m[i] + c1 * delta[i]
        square = delta[i] * delta[i]
        change = c2 * square
        v_next[i] = v[i]
        if v[i] > square:
            v_next[i] = v[i] - change
        elif v[i] < square:
            v_next[i] = v[i] + change
        out[i] = x[i] + lr * m_next[i] / (math.sqrt(v_next[i]) + eps)
        if not (abs(m_next[i]) <= largest and v_next[i] <= largest and abs(out[i]) <= largest):
            bad += 1
    return bad


def amsgrad(
    x: Vector,
    delta: Vector,
    m: Vector,
    v: Vector,
    v_hat: Vector,
    m_next: Vector,
    v_next: Vector,
    v_hat_next: Vector,
    out: Vector,
    given: Given,
) -> int:
    """`floor` bounds v_hat from below (option 1), `eps` is added under the root (option 2)."""
    lr, b1, c1, b2, c2, floor, eps, largest = given
    bad = 0
    for i in range(x.size):
        m_next[i] = b1 * m[i] + c1 * delta[i]
        v_next[i] = b2 * v[i] + c2 * (delta[i] * delta[i])
        peak = v_next[i] if v_next[i] > v_hat[i] else v_hat[i]
        v_hat_next[i] = floor if floor > peak else peak
        out[i] = x[i] + lr * m_next[i] / math.sqrt(v_hat_next[i] + eps)
        if not (abs(m_next[i]) <= largest and v_hat_next[i] <= largest and abs(out[i]) <= largest):
            bad += 1
    return bad
