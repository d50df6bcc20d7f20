"""A local rule as the compiled loops take it."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from fedpace.local import SGD
from fedpace.tasks.fast.compiled import Array, aligned
from fedpace.tasks.fast.dense_loops import Rule
from fedpace.vector import Vector

if TYPE_CHECKING:
    from fedpace.compute.protocol import Request


def is_plain(request: Request) -> bool:
    """y <- y - rate * gradient and nothing else: gradients can go straight into the weights."""
    local = request.local
    others = (local.momentum, local.weight_decay, local.prox_mu)
    return not any(others) and local.clip is None and request.correction is None


class WholeGradient:
    """Memory beside the parameters `y`, from the first local rule on that needs the gradient of a step as a whole."""

    def __init__(self, y: Array) -> None:
        self._y, self._memory = y, y[:0]

    def memory(self, request: Request) -> Array:
        """Of no size where gradients go straight into the weights."""
        if is_plain(request):
            return self._y[:0]
        if not self._memory.size:
            self._memory = aligned(self._y.size, self._y.dtype)
        return self._memory


@lru_cache(maxsize=64)
def rates(local: SGD, steps: int, dtype: np.dtype[np.floating]) -> Array:
    """The learning rate of every step."""
    found = np.array([local.rate(k) for k in range(steps)], dtype)
    found.flags.writeable = False
    return found


def rule(local: SGD, correction: Vector | None, y: Array) -> Rule:
    """`local` from where y is now."""
    if correction is None and not local.momentum and not local.prox_mu:
        return _without_arrays(local, y.dtype)
    return _rule(local, correction, y)


@lru_cache(maxsize=64)
def _without_arrays(local: SGD, dtype: np.dtype[np.floating]) -> Rule:
    return _rule(local, None, np.empty(0, dtype))


def _rule(local: SGD, correction: Vector | None, y: Array) -> Rule:
    number, none = y.dtype.type, y[:0]
    return Rule(
        clip=number(local.clip or 0),
        weight_decay=number(local.weight_decay),
        momentum=number(local.momentum),
        nesterov=local.nesterov,
        prox_mu=number(local.prox_mu),
        correction=none if correction is None else np.array(correction, y.dtype),
        buffer=np.zeros_like(y) if local.momentum else none,
        start=y.copy() if local.prox_mu else none,
    )
