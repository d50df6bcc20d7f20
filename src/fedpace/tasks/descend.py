"""Local training in torch: the same equations as `fedpace.local.descend`, in place on one flat vector."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from fedpace.compute.device import number
from fedpace.local import SGD, Stopped, until
from fedpace.vector import Spans


@torch.no_grad()
def descend(
    gradient: Callable[[], Tensor],
    y: Tensor,
    local: SGD,
    steps: int,
    correction: Tensor | None = None,
    stopped: Stopped | None = None,
    frozen: Spans = (),
) -> int:
    """Move `y` by `steps` steps of `local`, fewer if stopped; how many it were.

    `gradient()` is the stochastic gradient at what `y` holds, in a tensor that may be written to. `frozen` parts of
    `y` stay as they are.
    """
    taken = 0
    start = y.clone() if local.prox_mu else None
    buffer = torch.zeros_like(y) if local.momentum else None
    for k in until(stopped, range(steps)):
        g = clip_(still_(gradient(), frozen), local.clip)
        if local.weight_decay:
            g.add_(y, alpha=local.weight_decay)
        if correction is not None:
            g.add_(correction)
        if buffer is not None:
            buffer.mul_(local.momentum).add_(g)
            g = g.add_(buffer, alpha=local.momentum) if local.nesterov else buffer
        still_(g, frozen)
        rate = local.rate(k)
        if start is None:
            y.add_(g, alpha=-rate)
        else:
            pull = y - start
            y.add_(g, alpha=-rate).add_(pull, alpha=-rate * local.prox_mu)
        taken = k + 1
    return taken


def still_(g: Tensor, frozen: Spans) -> Tensor:
    """g, with zeros in place in the frozen parts."""
    for low, high in frozen:
        g[low:high] = 0
    return g


def clip_(g: Tensor, bound: float | None) -> Tensor:
    """g, shortened in place to length `bound` if it is longer; a GPU is not waited for."""
    if bound is None:
        return g
    length = torch.linalg.vector_norm(g)
    if not g.is_cpu:
        return g.mul_((bound / length).clamp(max=1.0))
    if (known := number(length)) > bound:
        g.mul_(bound / known)
    return g
