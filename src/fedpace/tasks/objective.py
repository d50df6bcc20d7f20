"""What is minimised on a batch, and what is measured besides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

Call = Callable[[nn.Module, Any], Any]
Measure = Callable[[Any, Any], Any]


def apply(module: nn.Module, inputs: Any) -> Any:
    """The network's output for one batch of inputs."""
    return module(inputs)


def accuracy(output: Tensor, target: Tensor) -> float:
    """The share of right answers; classes lie along axis 1."""
    return float((output.argmax(1) == target).double().mean())


@dataclass(frozen=True, slots=True)
class Objective:
    """Loss and metrics of one batch: functions of output and target, each a mean over the samples."""

    loss: Callable[[Any, Any], Tensor] = torch.nn.functional.cross_entropy
    metrics: Mapping[str, Measure] | None = None  # None: accuracy
    call: Call = apply

    def __call__(self, module: nn.Module, batch: tuple[Any, Any]) -> Tensor:
        inputs, targets = batch
        return self.loss(self.call(module, inputs), targets)

    def measure(self, module: nn.Module, batch: tuple[Any, Any]) -> dict[str, float]:
        """Loss and metrics of one batch."""
        inputs, targets = batch
        output = self.call(module, inputs)
        metrics = {"accuracy": accuracy} if self.metrics is None else self.metrics
        measured = {name: float(metric(output, targets)) for name, metric in metrics.items()}
        return {"loss": float(self.loss(output, targets)), **measured}
