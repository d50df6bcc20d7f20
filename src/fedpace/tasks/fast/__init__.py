"""Local training without autograd, for networks that are simple enough.

`solver(...)` looks at a network and its objective and returns the fastest solver, or None: then the
reference loop is used (`TorchTask.reference`). The choice depends on nothing else, so a seed still decides every
bit. Results equal the reference within rounding; `tests/tasks/fast` states how near.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import nn

from fedpace.local import Stopped
from fedpace.tasks.examples import Examples, Tensors
from fedpace.tasks.flat import FlatModule
from fedpace.tasks.objective import Objective, one_input
from fedpace.vector import Vector

if TYPE_CHECKING:
    from fedpace.compute.protocol import Request
    from fedpace.tasks.fast.compiled import Array


Randomness = Callable[["Request"], AbstractContextManager[None]]


class Solver(Protocol):
    """Local training of one network."""

    name: str
    call_s: float  # what a step costs beside its arithmetic, roughly

    def compiling(self) -> AbstractContextManager[None]:
        """Around the first use."""
        ...

    def takes(self, data: Examples) -> bool:
        """Whether it can train on these samples."""
        ...

    def solve(self, request: Request, data: Any) -> Vector:
        """delta = y_end - y_start of the request, on the samples of its client."""
        ...

    def train_until(self, request: Request, data: Any, stopped: Stopped | None) -> tuple[Vector, int]:
        """(delta, steps taken), stopped between two steps: bit-identical to `solve` with that many steps."""
        ...

    def network(self, x: Vector) -> nn.Module | None:
        """The network with the parameters `x`, until the next call; None: torch's own is as fast."""
        ...


def solver(flat: FlatModule, objective: Objective, data: Examples, randomness: Randomness) -> Solver | None:
    """The fastest way we know to train this network on data like this, unless that is the reference loop.

    `randomness(request)` is a context in which torch's random numbers are those of the session.
    """
    layers = plain_layers(flat)
    if layers is None or objective.call is not one_input or not isinstance(data, Tensors):
        return None
    shape = tuple(data.inputs.shape[1:])
    plain = _plain(layers, flat, shape) if is_cross_entropy(objective.loss) else None
    return plain or _layered(layers, flat, objective, shape, randomness)


def _plain(layers: list[nn.Module], flat: FlatModule, shape: tuple[int, ...]) -> Solver | None:
    """Of softmax regression, ReLU networks and convolutions."""
    flat_at = next((k for k, layer in enumerate(layers) if is_flatten(layer)), None)
    head, tail = ([], layers) if flat_at is None else (layers[:flat_at], layers[flat_at + 1 :])
    return _dense(tail, flat) if not head else _convolutional(head, tail, flat, shape)


def _layered(
    layers: list[nn.Module],
    flat: FlatModule,
    objective: Objective,
    shape: tuple[int, ...],
    randomness: Randomness,
) -> Solver | None:
    from fedpace.tasks.fast.layers import LayerSolver, layers_of
    from fedpace.tasks.fast.losses import known_loss

    trained = [layer for layer in layers if type(layer) is not nn.Dropout or flat.trains(layer)]
    known, loss = layers_of(trained, shape), known_loss(objective.loss)
    return None if known is None or loss is None else LayerSolver(known, loss, _memory(flat), randomness)


def _dense(layers: list[nn.Module], flat: FlatModule) -> Solver | None:
    from fedpace.tasks.fast.dense import DenseSolver, widths_of

    widths = widths_of(layers)
    return None if widths is None else DenseSolver(widths, _memory(flat))


def _memory(flat: FlatModule) -> Array:
    """The module's own vector, where it begins with a cache line as torch's memory does."""
    from fedpace.tasks.fast.compiled import LINE_BYTES, aligned

    own = flat.memory()
    return own if own.ctypes.data % LINE_BYTES == 0 else aligned(own.size, own.dtype)


def _convolutional(
    head: list[nn.Module], tail: list[nn.Module], flat: FlatModule, inputs: tuple[int, ...]
) -> Solver | None:
    from fedpace.tasks.fast.convolution import stages_of
    from fedpace.tasks.fast.dense import widths_of
    from fedpace.tasks.fast.images import ImageSolver

    widths, stages = widths_of(tail), stages_of(head, inputs) if len(inputs) == 3 else None
    if widths is None or not stages or stages[-1].features != widths[0]:
        return None
    return ImageSolver(stages, widths, flat.dtype)


def plain_layers(flat: FlatModule) -> list[nn.Module] | None:
    """The layers in order, if they follow one another and the flat vector holds all of their parameters."""
    layers = _unfolded(flat.module)
    tensors = [p for layer in layers for p in layer.parameters()]
    travelling = len(tensors) == len(flat.parameters) and all(
        p is q for p, q in zip(tensors, flat.parameters, strict=True)
    )
    return layers if layers and travelling and not any(map(_hooked, flat.module.modules())) else None


def _unfolded(module: nn.Module) -> list[nn.Module]:
    if type(module) is nn.Sequential:
        return [layer for part in module for layer in _unfolded(part)]
    return [] if type(module) is nn.Identity else [module]


def _hooked(module: nn.Module) -> bool:
    hooks = (module._forward_hooks, module._forward_pre_hooks)
    return any(hooks) or bool(module._backward_hooks or module._backward_pre_hooks)


def is_flatten(layer: nn.Module) -> bool:
    return type(layer) is nn.Flatten and (layer.start_dim, layer.end_dim) == (1, -1)


def is_cross_entropy(loss: object) -> bool:
    """The mean over a batch of the negative log-likelihood of softmax outputs, without extras."""
    if type(loss) is nn.CrossEntropyLoss:
        extras = (loss.weight is not None, loss.label_smoothing, loss.ignore_index >= 0)
        return loss.reduction == "mean" and not any(extras)
    return loss is torch.nn.functional.cross_entropy
