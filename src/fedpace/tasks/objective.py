"""The loss that is minimised on a batch, and the metrics measured with it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from fedpace.compute.device import wide
from fedpace.tasks.examples import Batch

Call = Callable[[nn.Module, Any], Any]
Measure = Callable[[Any, Any], Any]


def one_input(module: nn.Module, inputs: Any) -> Any:
    return module(inputs)


def several_inputs(module: nn.Module, inputs: Any) -> Any:
    return module(*inputs)


def inputs_by_name(module: nn.Module, inputs: Any) -> Any:
    return module(**inputs)


def calling(module: nn.Module, inputs: Any) -> Call:
    """How `module` takes `inputs`: a dict by keyword (whole, if it has no such keywords), a tuple in order."""
    if isinstance(inputs, (tuple, list)):
        return several_inputs
    if not isinstance(inputs, Mapping):
        return one_input
    signature = inspect.signature(module.forward)
    if _binds(signature, inputs):
        return inputs_by_name
    known = [name for name in inputs if name in signature.parameters]
    return SomeByName(tuple(known)) if known and _binds(signature, known) else one_input


@dataclass(frozen=True, slots=True)
class SomeByName:
    """Those inputs that a module takes; other columns of a data set are left out."""

    names: tuple[str, ...]

    def __call__(self, module: nn.Module, inputs: Any) -> Any:
        return module(**{name: inputs[name] for name in self.names})


def _binds(signature: inspect.Signature, names: Iterable[str]) -> bool:
    try:
        signature.bind(**dict.fromkeys(names))
    except TypeError:
        return False
    return True


def accuracy(output: Tensor, target: Tensor) -> Tensor:
    """The share of right answers, where they are; classes lie along axis 1."""
    return wide(output.argmax(1) == target).mean()


@dataclass(frozen=True, slots=True)
class Sum:
    """Several losses, added."""

    parts: Mapping[str, Callable[[Any, Any], Tensor]]

    def __call__(self, output: Any, target: Any) -> Tensor:
        return torch.stack([loss(output, target) for loss in self.parts.values()]).sum()


def as_it_is(output: Any) -> Any:
    return output


@dataclass(frozen=True, slots=True)
class Objective:
    """What is minimised, and what is measured: functions of output and target.

    `metrics` are means over the samples of a batch, and so of all batches; `whole` are seen by no batch alone.
    `reported` is the loss that is measured, where it is not the one that is minimised; `scores`: what the metrics
    see of an output.
    """

    loss: Callable[[Any, Any], Tensor]
    metrics: Mapping[str, Measure]
    call: Call = one_input
    whole: Mapping[str, Measure] = field(default_factory=dict)
    reported: Callable[[Any, Any], Tensor] | None = None
    scores: Callable[[Any], Any] = as_it_is

    def __call__(self, module: nn.Module, batch: Batch) -> Tensor:
        inputs, targets = batch
        return self.loss(self.call(module, inputs), targets)

    def means(self, output: Any, targets: Any) -> dict[str, Any]:
        """Loss and means of one batch, as numbers or as tensors of one number."""
        scores, loss = self.scores(output), self.reported or self.loss
        measured = {name: metric(scores, targets) for name, metric in self.metrics.items()}
        return {"loss": loss(output, targets), **measured}


CLASSIFICATION = Objective(torch.nn.functional.cross_entropy, {"accuracy": accuracy})


def classification(label_smoothing: float = 0.0) -> Objective:
    """Cross-entropy and accuracy; smoothed labels are trained on, and the loss on the true ones is reported."""
    if not label_smoothing:
        return CLASSIFICATION
    smoothed = nn.CrossEntropyLoss(label_smoothing=label_smoothing)
    return replace(CLASSIFICATION, loss=smoothed, reported=CLASSIFICATION.loss)
