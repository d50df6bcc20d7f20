"""The batches of a solve as two arrays: whole solves are planned at once instead of step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedpace.random import stream
from fedpace.tasks.batches import Positions

if TYPE_CHECKING:
    from fedpace.compute.protocol import Request


def planned(request: Request, samples: int) -> tuple[Positions, Positions]:
    """(order, ends): batch k is order[ends[k - 1] : ends[k]], the same as `fedpace.tasks.batches` gives."""
    size = samples if request.local.batch_size is None else min(request.local.batch_size, samples)
    each = -(-samples // size)  # batches of one pass
    passes = -(-request.steps // each)
    order = np.empty((passes, samples), np.int64)
    if request.local.batch_size is None:
        order[:] = np.arange(samples)
    else:
        rng = stream(request.seed, "batches", request.client, request.session)
        for row in order:
            row[:] = rng.permutation(samples)
    within = np.minimum(np.arange(1, each + 1) * size, samples)
    ends = (np.arange(passes)[:, None] * samples + within).ravel()[: request.steps]
    return order.ravel(), ends
