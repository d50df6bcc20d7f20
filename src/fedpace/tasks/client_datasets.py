"""The clients' training samples as tensors, made when first asked for."""

from __future__ import annotations

import numpy as np
import torch

from fedpace.tasks.datasets.data import Data
from fedpace.tasks.encode import Encoding
from fedpace.tasks.examples import Tensors
from fedpace.tasks.partition.rule import Indices

MEMORY_BYTES = 1 << 30  # of tensors in memory; data sets that need more are encoded again


class ClientDatasets:
    """The clients' training samples; `ClientDatasets(...)(client)` are those of one client."""

    def __init__(self, data: Data, parts: list[Indices], encoding: Encoding):
        self.data, self.parts, self.encoding = data, parts, encoding
        self.sizes = tuple(len(part) for part in parts)
        per_sample = 4 * int(np.prod(data.x_train.shape[1:]))
        per_client = per_sample * max(1, sum(self.sizes) // len(parts))
        self._room = max(2, MEMORY_BYTES // per_client)
        self._cache: dict[int, Tensors] = {}  # last used last; a cache of the method would keep itself alive

    def __len__(self) -> int:
        return len(self.parts)

    def __getitem__(self, client: int) -> Tensors:
        return self(client)

    def __call__(self, client: int) -> Tensors:
        found = self._cache.pop(client, None)
        if found is None:
            found = self._made(client)
            if len(self._cache) >= self._room:
                del self._cache[next(iter(self._cache))]
        self._cache[client] = found
        return found

    def _made(self, client: int) -> Tensors:
        part = self.parts[client]
        labels = self.data.y_train[part].astype(np.int64)
        return Tensors(self.encoding(self.data.x_train[part]), torch.from_numpy(labels))
