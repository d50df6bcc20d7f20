"""Local training by an optimizer of torch."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from fedpace.errors import ConfigError, require
from fedpace.local import Stopped, Torch, until
from fedpace.tasks.flat import FlatModule


def optimise(
    loss: Callable[[], Callable[[], Tensor]],
    flat: FlatModule,
    optimizer: Optimizer,
    steps: int,
    stopped: Stopped | None = None,
) -> int:
    """Move the module's parameters by `steps` steps of an optimizer, fewer if stopped; how many it were.

    `loss()` takes the next batch and returns its loss as a function of what the parameters are then: an optimizer may
    ask for it more than once (LBFGS).
    """
    taken, trained = 0, [p for group in optimizer.param_groups for p in group["params"]]
    try:
        for k in until(stopped, range(steps)):
            optimizer.step(partial(_backward, loss(), trained, flat))  # type: ignore[arg-type]
            taken = k + 1
    finally:
        for p in flat.parameters:
            p.grad = None
    return taken


def _backward(of_batch: Callable[[], Tensor], parameters: list[Tensor], flat: FlatModule) -> Tensor:
    with torch.enable_grad():
        value = flat.device.check(of_batch(), flat.vector)
    for p, g in zip(parameters, torch.autograd.grad(value, parameters, allow_unused=True), strict=True):
        p.grad = g
    return value.detach()


def made(local: Torch, parameters: list[Tensor]) -> Optimizer:
    """The optimizer that a rule names, on these parameters."""
    try:
        return optimizer_class(local.optimizer)(parameters, **dict(local.arguments))
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{local} does not make an optimizer: {error}") from None


@lru_cache(maxsize=64)
def optimizer_class(name: str) -> type[Optimizer]:
    """A class of `torch.optim`, or one of a module that is imported already: a name alone imports nothing."""
    module, _, attribute = name.rpartition(".")
    found: Any = None
    if module == "torch.optim" or module.startswith("torch.optim.") or module in sys.modules:
        try:
            found = getattr(importlib.import_module(module), attribute, None)
        except ImportError:
            found = None
    good = isinstance(found, type) and issubclass(found, Optimizer) and found is not Optimizer
    require(good, "optimizer", name, "one of torch.optim, or of a module that is imported already")
    return found  # type: ignore[no-any-return]
