"""Which samples a client's local steps see."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fedpace.random import stream

if TYPE_CHECKING:
    from fedpace.compute.protocol import Request

Positions = npt.NDArray[np.int64]


def batches(request: Request, samples: int) -> Iterator[Positions]:
    """One array of positions within the client's data per local step.

    Shuffled passes without replacement, the last partial batch included, continuing across passes; with
    `batch_size=None` all samples in their own order.
    """
    return islice(_passes(request, samples), request.steps)


def _passes(request: Request, samples: int) -> Iterator[Positions]:
    size = request.local.batch_size
    if size is None:
        everything = np.arange(samples)
        while True:
            yield everything
    rng = stream(request.seed, "batches", request.client, request.session)
    while True:
        order = rng.permutation(samples)
        for low in range(0, samples, size):
            yield order[low : low + size]
