"""The batches of a session as two arrays: whole sessions are planned at once instead of step by step."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from fedpace.random import stream
from fedpace.tasks.batches import Positions

if TYPE_CHECKING:
    from fedpace.compute.protocol import Request


def planned(request: Request, samples: int) -> tuple[Positions, Positions]:
    """(order, ends): batch k is order[ends[k - 1] : ends[k]], the same as `fedpace.tasks.batches` gives."""
    ends = _ends(request.local.batch_size, request.steps, samples)
    passes = -(-int(ends[-1]) // samples)
    if request.local.batch_size is None:
        return np.tile(np.arange(samples), passes), ends
    rng = stream(request.seed, "batches", request.client, request.session)
    orders = [rng.permutation(samples) for _ in range(passes)]
    return orders[0] if passes == 1 else np.concatenate(orders), ends


@lru_cache(maxsize=256)
def _ends(batch_size: int | None, steps: int, samples: int) -> Positions:
    size = samples if batch_size is None else min(batch_size, samples)
    each = -(-samples // size)  # batches of one pass
    step = np.arange(1, steps + 1)
    whole, within = (step - 1) // each, (step - 1) % each + 1
    ends: Positions = whole * samples + np.minimum(within * size, samples)
    ends.flags.writeable = False
    return ends
