"""The reference loop of local training, in numpy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedpace.local.sgd import SGD
from fedpace.local.until import Stopped, until
from fedpace.vector import Spans, Vector, shortened

Gradient = Callable[[Vector, int], Vector]


def descend(
    gradient: Gradient, start: Vector, local: SGD, steps: int, correction: Vector | None = None
) -> Vector:
    """delta = y_end - start after `steps` steps of `local`, by the equations of `SGD`.

    `gradient(y, k)` is the stochastic gradient of step k. Where no operation rounds (dyadic numbers) the
    result is exact.
    """
    delta, _ = descend_until(gradient, start, local, steps, None, correction)
    return delta


def descend_until(
    gradient: Gradient,
    start: Vector,
    local: SGD,
    steps: int,
    stopped: Stopped | None,
    correction: Vector | None = None,
    frozen: Spans = (),
) -> tuple[Vector, int]:
    """`descend`, stopped after any step, with parts that stay as they are; and the number of steps taken."""
    rho, y, buffer, taken = local.momentum, start.copy(), np.zeros_like(start), 0
    for k in until(stopped, range(steps)):
        g = clipped(still(gradient(y, k), frozen), local.clip)
        if local.weight_decay:
            g = g + local.weight_decay * y
        if correction is not None:
            g = g + correction
        if rho:
            buffer = rho * buffer + g
            g = g + rho * buffer if local.nesterov else buffer
        g = still(g, frozen)
        if local.prox_mu:
            g = g + local.prox_mu * (y - start)
        y = y - local.rate(k) * g
        taken = k + 1
    return y - start, taken


def still(g: Vector, frozen: Spans) -> Vector:
    """g, with zeros in the frozen parts."""
    if not frozen:
        return g
    g = g.copy()
    for low, high in frozen:
        g[low:high] = 0.0
    return g


def clipped(g: Vector, bound: float | None) -> Vector:
    """g, shortened to length `bound` if it is longer."""
    return g if bound is None else shortened(g, bound)
