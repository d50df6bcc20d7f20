"""The loss that is minimised on a batch, and the metrics measured with it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from fedpace.compute.device import to_host
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
    """How `module` takes `inputs`: a dict by keyword (or whole, if it has no such keywords), a tuple in order."""
    if isinstance(inputs, (tuple, list)):
        return several_inputs
    if not isinstance(inputs, Mapping):
        return one_input
    try:
        inspect.signature(module.forward).bind(**inputs)
    except TypeError:
        return one_input
    return inputs_by_name


def accuracy(output: Tensor, target: Tensor) -> float:
    """The share of right answers; classes lie along axis 1."""
    return float(to_host(output.argmax(1) == target).double().mean())


@dataclass(frozen=True, slots=True)
class Sum:
    """Several losses, added."""

    parts: Mapping[str, Callable[[Any, Any], Tensor]]

    def __call__(self, output: Any, target: Any) -> Tensor:
        return torch.stack([loss(output, target) for loss in self.parts.values()]).sum()


@dataclass(frozen=True, slots=True)
class Objective:
    """What is minimised, and what is measured: functions of output and target.

    `metrics` are means over the samples of a batch, and so of all batches; `whole` are seen by no batch alone.
    """

    loss: Callable[[Any, Any], Tensor]
    metrics: Mapping[str, Measure]
    call: Call = one_input
    whole: Mapping[str, Measure] = field(default_factory=dict)

    def __call__(self, module: nn.Module, batch: Batch) -> Tensor:
        inputs, targets = batch
        return self.loss(self.call(module, inputs), targets)

    def measure(self, module: nn.Module, batch: Batch) -> dict[str, float]:
        """Loss and means of one batch."""
        inputs, targets = batch
        return self.means(self.call(module, inputs), targets)

    def means(self, output: Any, targets: Any) -> dict[str, float]:
        measured = {name: float(metric(output, targets)) for name, metric in self.metrics.items()}
        return {"loss": float(self.loss(output, targets)), **measured}


CLASSIFICATION = Objective(torch.nn.functional.cross_entropy, {"accuracy": accuracy})
