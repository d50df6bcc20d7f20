"""Bring your own: any torch module on any map-style data."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from fedpace.compute.device import Device
from fedpace.compute.device import device as chosen_device
from fedpace.display import html
from fedpace.errors import ConfigError, known_parameters, require
from fedpace.tasks.batch_form import BatchForm, Collate
from fedpace.tasks.datasets.data import check_labels
from fedpace.tasks.examples import Examples, Tensors
from fedpace.tasks.fingerprint import sha256
from fedpace.tasks.flat import separated
from fedpace.tasks.hugging_face import is_hugging_face
from fedpace.tasks.mapped import examples, is_pair, is_tensors
from fedpace.tasks.objective import Call, Measure, Objective, Sum, accuracy, calling
from fedpace.tasks.own_loss import WithOwnLoss, logits, own_loss
from fedpace.tasks.partition.html import split_html
from fedpace.tasks.signature import signature
from fedpace.tasks.torch_task import TorchTask
from fedpace.tasks.trainable import freeze_all_but
from fedpace.tasks.whole import try_metric

Loss = Callable[[Any, Any], Tensor]
IGNORED = -100  # the label that torch's losses leave out unless told otherwise


class OwnTask(TorchTask):
    """Your module, your losses, your data."""

    own_module = True
    stochastic = True  # a module may draw random numbers (dropout), and so may a data set (augmentation)

    def __init__(
        self,
        model: nn.Module,
        objective: Objective,
        data: list[Examples],
        test: Examples,
        made_of: tuple[Any, ...],
        device: Device | None = None,
        client_tests: list[Examples] | None = None,
        collate_fn: Collate | None = None,
    ):
        self._model, self._data_sets, self._made_of = model, data, made_of
        self._collate = collate_fn
        self.client_tests, self._own_tests = client_tests, client_tests or []
        sizes = [len(part) for part in data]
        super().__init__(type(model).__name__, model, objective, sizes, data.__getitem__, test, device)
        self._flat.share(model, self._given)

    @cached_property
    def _digest(self) -> str:
        """Of the module with all its tensors, of losses and metrics, and of the data as far as it is in memory."""
        loss, _, _, metrics = self._made_of
        parts = [signature(self._model), signature(loss), signature(metrics)]
        parts += [] if self._collate is None else [signature(self._collate)]
        parts += [part.fingerprint() for part in (*self._data_sets, self.test, *self._own_tests)]
        return sha256(np.frombuffer("\n".join(parts).encode(), np.uint8))[:16]

    def __repr__(self) -> str:
        shape = f"parameters={self.layout.size}, clients={self.clients}, samples={sum(self.sizes)}"
        return f"from_torch({self.name}, {shape}, sha256 {self._digest}{self.device.text})"

    def _repr_html_(self) -> str | None:
        """Classes by clients, where the data is in memory and labelled; None means plain text."""
        labels = [part.targets for part in self._data_sets if isinstance(part, Tensors)]
        plain = len(labels) == self.clients and all(each.ndim == 1 and each.min() >= 0 for each in labels)
        if not plain or "accuracy" not in self.objective.metrics:
            return None
        classes = 1 + max(int(each.max()) for each in labels)
        columns = [np.bincount(each.numpy(), minlength=classes) for each in labels]
        return split_html(self.name, np.stack(columns, axis=1), html.text(self))

    def __reduce__(self) -> tuple[Any, ...]:
        again = partial(from_torch, collate_fn=self._collate)
        return again, (separated(self._model), *self._made_of, self.device)


@known_parameters
def from_torch(
    model: nn.Module,
    loss: Loss | Mapping[str, Loss] | None,
    clients: Sequence[object],
    test: object,
    metrics: Mapping[str, Measure] | None = None,
    device: str | Device = "cpu",
    precision: str = "float32",
    trainable: str | Sequence[str] | None = None,
    collate_fn: Collate | None = None,
) -> OwnTask:
    """A task from a module, starting at its present parameters; the module itself is never touched.

    `clients` are data sets, one each, and `test` is one: anything with a length and samples by number, such
    as torch's map-style data sets and Hugging Face's, or a pair of tensors. A tuple of two data sets is a client's
    training data and its own test data, which `run.client_metrics` is measured on (all clients have it, or none).
    A sample is (input, target), (input, ..., target), or a dict whose "labels", "label" or "target" is the target;
    inputs in a dict reach the module by keyword. `collate_fn` makes a batch of a list of samples, as for torch's
    `DataLoader`. `loss(output, target)` is a mean over the batch; of several by name the sum is minimised and each is
    measured. None: the module computes it itself, from a dict with its targets, and returns it as `output.loss`
    (and its scores as `output.logits`), as Hugging Face's models do. `metrics` are functions of all outputs and all
    targets of the test data, or objects with `reset`, `update` and `compute`; they come beside accuracy, which is
    there where the targets are classes.

    Only parameters that require a gradient travel, tied ones once. BatchNorm's running statistics do not:
    they are renewed before an evaluation (`fedpace.tasks.statistics`). Parts of the module in evaluation
    mode stay in it while training, unless the whole module is. `device` and `precision` are those of `tasks.load`;
    where the module is now makes no difference. `trainable`: patterns of the names of those parameters that are
    trained and travel (`"lora_*"`, `"head.*"`; any part of a name between dots will do); all others are frozen.

    >>> import torch
    >>> from fedpace import tasks
    >>> x = torch.randn(60, 4)
    >>> y = (x[:, 0] > 0).long()
    >>> clients = [(x[:20], y[:20]), (x[20:40], y[20:40])]
    >>> task = tasks.from_torch(torch.nn.Linear(4, 2), torch.nn.functional.cross_entropy, clients, (x[40:], y[40:]))
    >>> task.clients, task.layout.size
    (2, 10)
    """
    _require_in_place(model, loss, clients, test)
    _require_list(clients)
    place = chosen_device(device, precision)
    model = copy.deepcopy(model).cpu()
    if trainable is not None:
        freeze_all_but(model, [trainable] if isinstance(trainable, str) else trainable)
    training, tests = _with_tests(clients)
    form = BatchForm(collate_fn, own_loss=loss is None)
    data = [examples(part, f"client {k}", form) for k, part in enumerate(training)]
    own_tests = [examples(part, f"test data of client {k}", form) for k, part in enumerate(tests)]
    held_out = examples(test, "test data", form)
    objective = _objective(model, loss, metrics, data[0])
    if "accuracy" in objective.metrics:
        _check_classes(model, objective, data, held_out)
    made_of = (loss, clients, test, metrics)
    return OwnTask(model, objective, data, held_out, made_of, place, own_tests or None, collate_fn)


def _require_in_place(model: object, loss: object, clients: object, test: object) -> None:
    """Refuse arguments in each other's place, and what is no module."""
    early = _trains(loss) and not _trains(model)  # the loss comes before the model
    late = callable(clients) and not hasattr(clients, "__len__")  # it comes after the data
    no_list = (
        is_tensors(clients) and isinstance(test, list) and not is_tensors(test)
    )  # the test data comes first
    got = ", ".join(type(each).__name__ for each in (model, loss, clients, test))
    if early or late or no_list:
        raise ConfigError(f"arguments must be in the order from_torch(model, loss, clients, test); got {got}")
    require(isinstance(model, nn.Module), "model", type(model).__name__, "a torch.nn.Module")


def _trains(part: object) -> bool:
    return isinstance(part, nn.Module) and any(p.requires_grad for p in part.parameters())


def _require_list(clients: object) -> None:
    """Refuse one data set, or a dictionary of them, in the place of a list."""
    got, allowed = type(clients).__name__, "a list of data sets, one per client"
    require(not isinstance(clients, Mapping), "clients", got, f"{allowed}: list(clients.values())")
    one = isinstance(clients, Dataset | Tensor | Tensors) or is_tensors(clients) or is_hugging_face(clients)
    require(not one and hasattr(clients, "__len__"), "clients", f"one {got}", f"{allowed}: [clients]")
    require(len(clients) > 0, "clients", [], "data sets, at least one")  # type: ignore[arg-type]


def _with_tests(clients: Sequence[object]) -> tuple[Sequence[object], Sequence[object]]:
    """Training data of all clients, and their own test data where they have it."""
    pairs: list[Any] = [part for part in clients if is_pair(part)]
    if not pairs:
        return clients, ()
    require(
        len(pairs) == len(clients), "clients", f"{len(pairs)} pairs", "all pairs (training, test), or none"
    )
    return [train for train, _ in pairs], [test for _, test in pairs]


def _objective(
    model: nn.Module,
    loss: Loss | Mapping[str, Loss] | None,
    metrics: Mapping[str, Measure] | None,
    data: Examples,
) -> Objective:
    """The objective, tried on two samples."""
    inputs, target = data.take(np.arange(min(2, len(data))))
    objective = _minimised(loss, calling(model, inputs))
    output = _try_model(model, objective, inputs)
    _try_loss(objective, output, target)
    own, scores = dict(metrics or {}), objective.scores(output)
    require(
        scores is not None or not own, "metrics", list(own), "None: the model returns no logits to measure"
    )
    for name, metric in own.items():
        try_metric(name, metric, scores, target)
    labelled = _are_classes(scores, target) and "accuracy" not in own
    means = {"accuracy": accuracy} if labelled else {}
    parts = objective.loss.parts if isinstance(objective.loss, Sum) else {}
    require(
        "loss" not in (*parts, *own),
        "names of losses and metrics",
        "loss",
        "others: it is what is minimised",
    )
    return replace(objective, metrics={**parts, **means}, whole=own)


def _minimised(loss: Loss | Mapping[str, Loss] | None, call: Call) -> Objective:
    if loss is None:
        return Objective(own_loss, {}, WithOwnLoss(call), scores=logits)
    return Objective(Sum(dict(loss)) if isinstance(loss, Mapping) else loss, {}, call)


@torch.no_grad()
def _try_model(model: nn.Module, objective: Objective, inputs: Any) -> Any:
    tried = copy.deepcopy(model).eval()
    try:
        return objective.call(tried, inputs)
    except ConfigError:
        raise
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        raise ConfigError(f"model does not take its input {described(inputs)}: {_line(error)}") from error


@torch.no_grad()
def _try_loss(objective: Objective, output: Any, target: Any) -> None:
    fit = f"output {described(output)}, target {described(target)}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)  # torch warns of shapes that are broadcast
            value = objective.loss(output, target)
    except (RuntimeError, TypeError, ValueError, IndexError, AttributeError, UserWarning) as error:
        raise ConfigError(f"loss does not fit the model: {fit}: {_line(error)}") from error
    if not isinstance(value, Tensor) or value.numel() != 1:
        raise ConfigError(f"loss must be one number, a mean over the batch; got {described(value)} ({fit})")


def _are_classes(output: object, target: object) -> bool:
    """Whether `output` holds scores along axis 1 for the classes in `target`."""
    return (
        isinstance(output, Tensor)
        and isinstance(target, Tensor)
        and not target.is_floating_point()
        and output.ndim == target.ndim + 1
        and output.shape[:1] + output.shape[2:] == target.shape
    )


def _check_classes(model: nn.Module, objective: Objective, data: list[Examples], test: Examples) -> None:
    """Labels in range, and none in the test data that no client trains on; as far as all are in memory."""
    if not all(isinstance(part, Tensors) for part in (*data, test)):
        return
    inputs, _ = data[0].take(np.arange(1))
    classes = _try_model(model, objective, inputs).shape[1]
    seen: set[int] = set()
    for what, part in (*((f"client {k}", part) for k, part in enumerate(data)), ("test data", test)):
        labels = part.take(np.arange(len(part)))[1].numpy()
        labels = labels[labels != getattr(objective.loss, "ignore_index", IGNORED)]
        if not labels.size:
            continue
        check_labels(f"{what} labels", labels, classes)
        new = set(np.unique(labels).tolist())
        if what == "test data" and new - seen:
            raise ConfigError(f"class {min(new - seen)} is in the test data but in no client's training data")
        seen |= new


def described(value: object) -> str:
    """Type and shape, for an error message."""
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {described(part)}" for key, part in value.items()) + "}"
    if isinstance(value, (tuple, list)):
        return "(" + ", ".join(described(part) for part in value) + ")"
    return type(value).__name__


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
