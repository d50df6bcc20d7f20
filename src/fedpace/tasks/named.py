"""Ready-made tasks: a data set, a partition and a network, each by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from fedpace.client_spread import ClientSpread
from fedpace.compute.device import Device
from fedpace.compute.device import device as chosen_device
from fedpace.display import html
from fedpace.errors import require, require_count, require_number, unknown
from fedpace.random import stream
from fedpace.tasks import TASKS, networks
from fedpace.tasks.client_datasets import ClientDatasets
from fedpace.tasks.datasets.data import Data
from fedpace.tasks.datasets.digits import digits
from fedpace.tasks.datasets.find import find
from fedpace.tasks.datasets.synthetic import parameters, synthetic
from fedpace.tasks.encode import Codes, Encoded, Encoding, Numbers, Pixels
from fedpace.tasks.evaluation import by_stratum
from fedpace.tasks.flat import FlatModule
from fedpace.tasks.objective import classification
from fedpace.tasks.partition import Natural, Partition, hold_back
from fedpace.tasks.partition import partition as parsed
from fedpace.tasks.partition.html import split_html
from fedpace.tasks.torch_task import TorchTask
from fedpace.vector import Vector, freeze


@dataclass(frozen=True, slots=True)
class TaskDefaults:
    """The encoding and the networks of a data set, and its default model and partition."""

    encoding: Encoding
    networks: Mapping[str, networks.Builder]
    model: str
    partition: str = "iid"


# means and deviations of the training pixels, per channel
DEFAULTS = {
    "digits": TaskDefaults(Pixels(16.0, (0.3053,), (0.3760,)), networks.IMAGES, "mlp"),
    "synthetic": TaskDefaults(Numbers(), networks.FEATURES, "softmax", "natural"),
    "mnist": TaskDefaults(Pixels(255.0, (0.1307,), (0.3081,)), networks.IMAGES, "cnn"),
    "fashion-mnist": TaskDefaults(Pixels(255.0, (0.2860,), (0.3530,)), networks.IMAGES, "cnn"),
    "cifar10": TaskDefaults(
        Pixels(255.0, (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)), networks.IMAGES, "cnn"
    ),
    "cifar100": TaskDefaults(
        Pixels(255.0, (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)), networks.IMAGES, "resnet18"
    ),
    "shakespeare": TaskDefaults(Codes(), networks.TEXT, "gru", "natural"),
}


class LoadedTask(TorchTask):
    """A named data set, split over clients, and a named network on it.

    `seed` decides the partition; the initial model is decided by the seed that `initial` is given.
    `client_test` is the share of each client's samples that is its own test data.
    """

    def __init__(
        self,
        data: Data,
        defaults: TaskDefaults,
        clients: int,
        rule: Partition,
        model: str,
        seed: int,
        device: Device | None = None,
        client_test: float = 0.0,
        label_smoothing: float = 0.0,
    ):
        self.data, self.defaults = data, defaults
        self.partition, self.model, self.seed = rule, model, seed
        self.client_test, self.label_smoothing = client_test, label_smoothing
        labels, groups = data.labels(), data.groups_train
        self.parts = rule.split(labels, groups, clients, stream(seed, "partition"))
        if client_test:
            self.parts, held_back = hold_back(self.parts, client_test, seed)
            self.client_tests = ClientDatasets(data, held_back, defaults.encoding)
        holdings = ClientDatasets(data, self.parts, defaults.encoding)
        test = Encoded(data.x_test, data.y_test, defaults.encoding)
        self._first: tuple[int, Vector] | None = None  # the last initial model asked for, and its seed
        self._shape = tuple(test.take(np.arange(1))[0].shape[1:])
        objective = classification(label_smoothing)
        super().__init__(data.name, self._network(seed), objective, holdings.sizes, holdings, test, device)

    def _network(self, seed: int) -> nn.Module:
        return networks.build(self.model, self.defaults.networks, self._shape, self.data.classes, seed)

    def initial(self, seed: int) -> Vector:
        """The network's own initialisation, drawn from `seed`."""
        if self._first is None or self._first[0] != seed:
            self._first = seed, freeze(FlatModule(self._network(seed)).values())
        return self._first[1]

    def evaluate_clients(self, x: Vector) -> ClientSpread:
        """The accuracy each client can expect on new data like its own, from one pass over the test data.

        With test data held back: on those, client by client. By nature split: on the test samples of its own group.
        Else: accuracy per class, weighted by the classes the client holds. (Text that is not split by nature: on its
        own training data.)
        """
        if self.client_tests is not None:
            return super().evaluate_clients(x)
        trained, tested = self._strata
        if trained is None or tested is None:
            return super().evaluate_clients(x)
        held = [trained[part] for part in self.parts]
        with self.device.session("evaluation"), self.device.arithmetic():
            rates = by_stratum(self._show(x), self._test_here(), tested, held)
        return ClientSpread("accuracy", rates)

    def evaluate_client(self, x: Vector, client: int) -> Mapping[str, float]:
        """The same for a client's own model."""
        trained, tested = self._strata
        if trained is None or tested is None:
            return super().evaluate_client(x, client)
        held = [trained[self.parts[client]]]
        with self.device.session("evaluation"), self.device.arithmetic():
            [rate] = by_stratum(self._show(x, client), self._test_here(), tested, held)
        return {"accuracy": float(rate)}

    @property
    def _strata(self) -> tuple[Any, Any]:
        """The group, else the class, of every training and test sample; None for text that is not split by nature."""
        if isinstance(self.partition, Natural):
            return self.data.groups_train, self.data.groups_test
        return (self.data.y_train, self.data.y_test) if self.data.y_train.ndim == 1 else (None, None)

    def _repr_html_(self) -> str:
        return split_html(f"{self.name}, {self.partition}", self.data.counts(self.parts), html.text(self))

    def __repr__(self) -> str:
        return (
            f"load({self.name!r}, clients={self.clients}, partition={self.partition}, "
            f"model={self.model!r}, seed={self.seed}{self._options}{self.device.text})"
        )

    @property
    def _options(self) -> str:
        """Those that are not the default, as they are given to `load`."""
        given = {"client_test": self.client_test, "label_smoothing": self.label_smoothing}
        return "".join(f", {name}={value!r}" for name, value in given.items() if value)

    def __reduce__(self) -> tuple[Any, ...]:
        arguments = (self.name, self.clients, self.partition, self.model, self.seed)
        return load, (*arguments, self.device, "float32", self.client_test, self.label_smoothing)


def load(
    name: str,
    clients: int = 100,
    partition: str | Partition | None = None,
    model: str | None = None,
    seed: int = 0,
    device: str | Device = "cpu",
    precision: str = "float32",
    client_test: float = 0.0,
    label_smoothing: float = 0.0,
) -> LoadedTask:
    """The data set `name`, split over `clients` by `partition`, with the network `model`.

    Without `partition` and `model` the data set's own: the natural split where there is one, else iid; the
    network that suits it. `device`: cpu, cuda, cuda:1, mps, or auto: a GPU where there is one. `precision`: of the
    forward and backward pass, float32, bf16 or fp16; the model that travels stays float32. `client_test`: the share of
    every client's samples that is held back as its own test data, for `run.client_metrics`. `label_smoothing`: of the
    loss that is trained on; the loss that is reported is that of the true labels.

    >>> from fedpace import tasks
    >>> task = tasks.load("digits", clients=10, partition="dirichlet:0.5")
    >>> task.clients, task.layout.size
    (10, 2410)
    """
    require(isinstance(name, str), "task", name, "a name such as 'digits'")
    require(isinstance(model, str | None), "model", model, "a name such as 'mlp', or None")
    defaults = task_defaults(name)
    require_count(clients, "clients")
    require_count(seed, "seed", low=0)
    require_number(
        client_test, "client_test", low=0, below=1, allowed="in [0, 1), a share of every client's samples"
    )
    require_number(label_smoothing, "label_smoothing", low=0, below=1, allowed="in [0, 1)")
    place = chosen_device(device, precision)
    rule = parsed(partition or defaults.partition)
    data = read(name, clients, seed)
    chosen = model or defaults.model
    return LoadedTask(data, defaults, clients, rule, chosen, seed, place, client_test, label_smoothing)


def task_defaults(name: str) -> TaskDefaults:
    """The defaults of a data set; `synthetic` may carry its parameters."""
    kind = name.partition(":")[0] if name.startswith("synthetic:") else name
    if kind not in DEFAULTS:
        raise unknown("task", name, TASKS)
    return DEFAULTS[kind]


def read(name: str, clients: int, seed: int) -> Data:
    """The data; that of `synthetic` is made for this many clients."""
    if name.startswith("synthetic"):
        return synthetic(*parameters(name), clients, seed)
    return digits() if name == "digits" else find(name)
