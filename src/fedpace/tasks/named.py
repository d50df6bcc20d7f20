"""Ready-made tasks: a data set, a partition and a network, each by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from torch import nn

from fedpace.client_spread import ClientSpread
from fedpace.compute.device import Device
from fedpace.compute.device import device as chosen_device
from fedpace.display import html
from fedpace.errors import known_parameters, require, require_count, require_number, unknown
from fedpace.random import stream
from fedpace.tasks import OUTSIDE, TASKS, networks
from fedpace.tasks.client_datasets import ClientDatasets
from fedpace.tasks.datasets.data import Data
from fedpace.tasks.datasets.digits import digits
from fedpace.tasks.datasets.find import find
from fedpace.tasks.datasets.outside import read_outside
from fedpace.tasks.datasets.synthetic import parameters, synthetic
from fedpace.tasks.encode import Codes, Encoded, Encoding, Numbers, Pixels
from fedpace.tasks.evaluation import EVALUATION, by_stratum
from fedpace.tasks.fingerprint import sha256
from fedpace.tasks.flat import FlatModule
from fedpace.tasks.objective import classification
from fedpace.tasks.own_network import OwnNetwork
from fedpace.tasks.partition import Natural, Partition, hold_back
from fedpace.tasks.partition import partition as parsed
from fedpace.tasks.partition.html import split_html
from fedpace.tasks.torch_task import TorchTask
from fedpace.vector import Vector, freeze

DEFAULT_CLIENTS = 100


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
        model: str | OwnNetwork,
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
        if isinstance(model, OwnNetwork):
            self.stochastic = self.own_module = True  # it may draw random numbers
        self._first: tuple[int, Vector] | None = None  # the last initial model asked for, and its seed
        self._shape = tuple(test.take(np.arange(1))[0].shape[1:])
        objective = classification(label_smoothing)
        super().__init__(data.name, self._network(seed), objective, holdings.sizes, holdings, test, device)

    def _network(self, seed: int) -> nn.Module:
        if isinstance(self.model, OwnNetwork):
            return self.model.build(self._shape, self.data.classes, seed)
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
        trained, tested = self._strata
        if trained is None or tested is None:
            return super().evaluate_clients(x)
        held = [trained[part] for part in self.parts]
        with self.device.session(*EVALUATION), self.device.arithmetic():
            rates = by_stratum(self._show(x), self._test_here(), tested, held, self.device)
        return ClientSpread("accuracy", rates)

    def evaluate_client(self, x: Vector, client: int) -> Mapping[str, float]:
        """The same for a client's own model."""
        trained, tested = self._strata
        if trained is None or tested is None:
            return super().evaluate_client(x, client)
        held = [trained[self.parts[client]]]
        with self.device.session(*EVALUATION), self.device.arithmetic():
            [rate] = by_stratum(self._show(x, client), self._test_here(), tested, held, self.device)
        return {"accuracy": float(rate)}

    @property
    def _strata(self) -> tuple[Any, Any]:
        """The group, else the class, of every training and test sample; None where clients have test data of their own,
        and for text that is not split by nature.
        """
        if self.client_tests is not None:
            return None, None
        if isinstance(self.partition, Natural) and self.data.groups_test is not None:
            return self.data.groups_train, self.data.groups_test
        return (self.data.y_train, self.data.y_test) if self.data.y_train.ndim == 1 else (None, None)

    def _repr_html_(self) -> str:
        return split_html(f"{self.name}, {self.partition}", self.data.counts(self.parts), html.text(self))

    def __repr__(self) -> str:
        return (
            f"load({self._source!r}, clients={self.clients}, partition={self.partition}, "
            f"model={self.model!r}, seed={self.seed}{self._options}{self.device.text})"
        )

    @property
    def client_names(self) -> tuple[str, ...]:
        """Of the clients of a natural split, where the data has names for them: files, writers."""
        groups, names = self.data.groups_train, self.data.group_names
        if groups is None or not names or not isinstance(self.partition, Natural):
            return ()
        return tuple(names[groups[part[0]]] for part in self.parts)

    @property
    def _source(self) -> str:
        return self.data.source or self.name

    @cached_property
    def _options(self) -> str:
        """Those that are not the default, as they are given to `load`."""
        given: dict[str, Any] = {"client_test": self.client_test, "label_smoothing": self.label_smoothing}
        if self.data.source:
            given["data_sha256"] = digest_of(self.data)
        return "".join(f", {name}={value!r}" for name, value in given.items() if value)

    def __reduce__(self) -> tuple[Any, ...]:
        arguments = (self._source, self.clients, self.partition, self.model, self.seed)
        return load, (*arguments, self.device, "float32", self.client_test, self.label_smoothing)


@known_parameters
def load(
    name: str,
    clients: int | None = None,
    partition: str | Partition | Sequence[Sequence[int]] | None = None,
    model: str | nn.Module | Callable[..., nn.Module] | OwnNetwork | None = None,
    seed: int = 0,
    device: str | Device = "cpu",
    precision: str = "float32",
    client_test: float = 0.0,
    label_smoothing: float = 0.0,
    data_sha256: str | None = None,
) -> LoadedTask:
    """The data set `name`, split over `clients` by `partition`, with the network `model`.

    Without `clients` there are 100, or as many as the files or lists of samples say. Without `partition` and `model`
    the data set's own: the natural split where there is one, else iid; the network that suits it. `partition` may be
    the numbers of each client's samples, or a JSON file of them; `model` a module of your own, or a class or function
    that makes one. `folder:PATH` and `leaf:PATH` are data of your own; `data_sha256` refuses them once they have
    changed. `device`: cpu, cuda, cuda:1, mps, or auto: a GPU where there is one. `precision`: of the
    forward and backward pass, float32, bf16 or fp16; the model that travels stays float32. `client_test`: the share of
    every client's samples that is held back as its own test data, for `run.client_metrics`. `label_smoothing`: of the
    loss that is trained on; the loss that is reported is that of the true labels.

    >>> from fedpace import tasks
    >>> task = tasks.load("digits", clients=10, partition="dirichlet:0.5")
    >>> task.clients, task.layout.size
    (10, 2410)
    """
    require(isinstance(name, str), "task", name, "a name such as 'digits'")
    named = isinstance(model, str | OwnNetwork | None)
    require(named or callable(model), "model", model, "a name such as 'mlp', a torch.nn.Module, or None")
    if not is_outside(name):
        task_defaults(name)
    if clients is not None:
        require_count(clients, "clients")
    require_count(seed, "seed", low=0)
    require_number(
        client_test, "client_test", low=0, below=1, allowed="in [0, 1), a share of every client's samples"
    )
    require_number(label_smoothing, "label_smoothing", low=0, below=1, allowed="in [0, 1)")
    place = chosen_device(device, precision)
    rule = None if partition is None else parsed(partition)
    known = getattr(rule, "clients", None) or clients
    data = read(name, known or DEFAULT_CLIENTS, seed)
    defaults = _fitting(data) if data.source else task_defaults(name)
    if data_sha256 is not None and data.source:
        require(
            digest_of(data) == data_sha256, f"data of {name}", "others", f"as they were, sha256 {data_sha256}"
        )
    count = clients or known or data.own_clients or DEFAULT_CLIENTS
    network = defaults.model if model is None else model if named else OwnNetwork(model)  # type: ignore[arg-type]
    rule = rule or parsed(defaults.partition)
    return LoadedTask(data, defaults, count, rule, network, seed, place, client_test, label_smoothing)  # type: ignore[arg-type]


def _fitting(data: Data) -> TaskDefaults:
    """The networks for samples of this shape."""
    if data.x_train.ndim == 4:
        return TaskDefaults(Numbers(), networks.IMAGES, "cnn", "natural")
    return TaskDefaults(Numbers(), networks.FEATURES, "mlp", "natural")


def digest_of(data: Data) -> str:
    """Its content in 16 letters."""
    return sha256(data.x_train, data.y_train, data.x_test, data.y_test)[:16]


def is_outside(name: str) -> bool:
    """Whether it names a place on the disk: `folder:PATH`, `leaf:PATH`."""
    kind, colon, _ = name.partition(":")
    return bool(colon) and kind in {form.partition(":")[0] for form in OUTSIDE}


def task_defaults(name: str) -> TaskDefaults:
    """The defaults of a data set; `synthetic` may carry its parameters."""
    kind = name.partition(":")[0] if name.startswith("synthetic:") else name
    if kind not in DEFAULTS:
        raise unknown("task", name, [*TASKS, *OUTSIDE])
    return DEFAULTS[kind]


def default_partition(name: str) -> str:
    """The rule that splits a data set where none is given."""
    return "natural" if is_outside(name) else task_defaults(name).partition


def read(name: str, clients: int, seed: int) -> Data:
    """The data; that of `synthetic` is made for this many clients."""
    if is_outside(name):
        return read_outside(name)
    if name.startswith("synthetic"):
        return synthetic(*parameters(name), clients, seed)
    return digits() if name == "digits" else find(name)
