"""Ready-made tasks: a data set, a partition and a network, each by name."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import nn

from fedpace.errors import ConfigError, require_count
from fedpace.random import stream
from fedpace.tasks.datasets.data import Data
from fedpace.tasks.datasets.digits import digits
from fedpace.tasks.encode import Encoded, Encoding, Pixels
from fedpace.tasks.flat import FlatModule
from fedpace.tasks.holdings import Holdings
from fedpace.tasks.networks import build
from fedpace.tasks.objective import Objective
from fedpace.tasks.partition import Partition
from fedpace.tasks.partition import partition as parsed
from fedpace.tasks.torch_task import TorchTask
from fedpace.vector import Vector, freeze


class LoadedTask(TorchTask):
    """A named data set, split over clients, and a named network on it.

    `seed` decides the partition; the initial model is decided by the seed that `initial` is given.
    """

    def __init__(self, data: Data, encoding: Encoding, clients: int, rule: Partition, model: str, seed: int):
        self.data, self.partition, self.model, self.seed = data, rule, model, seed
        labels = data.y_train.astype(np.int64)
        parts = rule.split(labels, data.groups_train, clients, stream(seed, "partition"))
        holdings = Holdings(data, parts, encoding)
        self.parts = holdings.parts
        test = Encoded(data.x_test, data.y_test, encoding)
        self._shape = tuple(test.take(np.arange(1))[0].shape[1:])
        super().__init__(data.name, self._network(seed), Objective(), holdings.sizes, holdings, test)

    def _network(self, seed: int) -> nn.Module:
        return build(self.model, self._shape, self.data.classes, seed)

    def initial(self, seed: int) -> Vector:
        """The network's own initialisation, drawn from `seed`."""
        return freeze(FlatModule(self._network(seed)).values())

    def __repr__(self) -> str:
        return (
            f"load({self.name!r}, clients={self.clients}, partition={self.partition}, "
            f"model={self.model!r}, seed={self.seed})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return load, (self.name, self.clients, self.partition, self.model, self.seed)


def load(
    name: str,
    clients: int = 100,
    partition: str | Partition | None = None,
    model: str | None = None,
    seed: int = 0,
) -> LoadedTask:
    """The data set `name`, split over `clients` by `partition`, with the network `model`.

    Without `partition` and `model` the data set's own defaults: the natural split where there is one, else
    iid; the network that suits it.
    """
    require_count(clients, "clients")
    require_count(seed, "seed", low=0)
    if name != "digits":
        raise ConfigError(f"task must be one of digits; got {name!r}")
    encoding = Pixels(16.0, (0.3053,), (0.3760,))
    return LoadedTask(digits(), encoding, clients, parsed(partition or "iid"), model or "mlp", seed)
