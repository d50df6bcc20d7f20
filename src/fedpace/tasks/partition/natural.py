"""The split the data came with: speakers, writers, devices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedpace.errors import ConfigError
from fedpace.tasks.partition.rule import Indices


@dataclass(frozen=True, slots=True)
class Natural:
    """One client per group of the data, largest first; ties in the order of the groups.

    With fewer clients than groups the samples of the smallest groups are not used.
    """

    def split(
        self, labels: Indices, groups: Indices | None, clients: int, rng: np.random.Generator
    ) -> list[Indices]:
        if groups is None:
            raise ConfigError("partition natural needs data that is split by nature (shakespeare, synthetic)")
        sizes = np.bincount(groups)
        if clients > np.count_nonzero(sizes):
            raise ConfigError(
                f"clients must be <= {np.count_nonzero(sizes)} (groups in the data); got {clients}"
            )
        largest = np.argsort(-sizes, kind="stable")[:clients]
        return [np.flatnonzero(groups == group) for group in largest]
