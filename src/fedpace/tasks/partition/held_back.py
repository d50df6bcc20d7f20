"""A share of every client's samples, held back as its own test data."""

from __future__ import annotations

import numpy as np

from fedpace.errors import ConfigError
from fedpace.random import stream
from fedpace.tasks.partition.rule import Indices


def hold_back(parts: list[Indices], share: float, seed: int) -> tuple[list[Indices], list[Indices]]:
    """(training, test) samples of every client, ascending; at least one of each, drawn by client."""
    pairs = [_divided(part, share, seed, client) for client, part in enumerate(parts)]
    return [train for train, _ in pairs], [test for _, test in pairs]


def _divided(part: Indices, share: float, seed: int, client: int) -> tuple[Indices, Indices]:
    if len(part) < 2:
        raise ConfigError(
            f"client_test must be 0 where a client has a single sample; got {share:g}, and client {client} with "
            f"{len(part)}: a partition with a minimum size (dirichlet:0.3,min=10) has none"
        )
    held = min(max(1, round(share * len(part))), len(part) - 1)
    order = stream(seed, "partition", client, 1).permutation(len(part))
    return np.sort(part[order[held:]]), np.sort(part[order[:held]])
