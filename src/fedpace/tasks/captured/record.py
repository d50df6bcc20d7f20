"""One forward and backward pass as the list of torch operations it consists of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

from fedpace.compute.device import each

Geometry = tuple[
    int, int, tuple[int, ...], tuple[int, ...], torch.dtype
]  # memory, offset, shape, strides, type


MOST_BYTES = 1 << 30  # of one pass, all of which is held while it is recorded


class Unfit(Exception):
    """The module cannot be replayed, and why."""


class Call(NamedTuple):
    """One operation. Its tensors have the shapes that they had then: `resize_` and the like cannot change them."""

    operation: OpOverload
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outputs: tuple[Tensor, ...]

    @property
    def inputs(self) -> list[Tensor]:
        return [*tensors(self.args), *tensors(self.kwargs)]


class Recording(NamedTuple):
    calls: list[Call]
    batch: Any  # inputs and targets, in memory of their own
    gradients: list[Tensor | None]  # of the loss with respect to every parameter


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Lets every operation run, and notes it. Nothing is freed meanwhile, so that an address names one memory."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[Call] = []
        self._bytes = 0
        self._known: dict[Geometry, Tensor] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """torch would import its compiler, for a second and a half, in order to keep it away from this class."""
        return False

    def __torch_dispatch__(
        self, operation: OpOverload, types: object, args: Any = (), kwargs: Any = None
    ) -> Any:
        seen_args, seen_kwargs = substituted((args, kwargs or {}), self.noted)
        result = operation(*args, **(kwargs or {}))
        outputs = tuple(self.noted(tensor) for tensor in tensors(result))
        self._bytes += 0 if operation.is_view else sum(tensor.nbytes for tensor in outputs)
        if self._bytes > MOST_BYTES:
            raise Unfit("one pass takes much memory")
        self.calls.append(Call(operation, seen_args, seen_kwargs, outputs))
        return result

    def noted(self, tensor: Tensor) -> Tensor:
        """A view of all of a tensor as it is now, one for all tensors of that shape in that place."""
        if tensor.layout is not torch.strided or not tensor.is_cpu or type(tensor) not in PLAIN:
            raise Unfit(f"a tensor of type {type(tensor).__name__}, {tensor.layout}")
        where = geometry(tensor)
        if where not in self._known:
            self._known[where] = torch.as_strided(tensor.detach(), where[2], where[3], where[1])
        return self._known[where]


PLAIN = (Tensor, nn.Parameter)


def record(loss: Callable[[Any], Tensor], parameters: list[Tensor], batch: Any) -> Recording:
    """The pass on a copy of `batch`, whose memory is the inputs' from then on."""
    own = each(batch, torch.clone)
    with Recorder() as recorder, torch.enable_grad():
        gradients = torch.autograd.grad(loss(own), parameters, allow_unused=True)
    return Recording(recorder.calls, own, [None if g is None else recorder.noted(g) for g in gradients])


def name_of(operation: OpOverload) -> str:
    """With its variant: aten::add.Tensor"""
    schema = operation._schema
    return f"{schema.name}.{schema.overload_name}" if schema.overload_name else str(schema.name)


def memory(tensor: Tensor) -> int:
    """The address of the memory that a tensor is a part of; 0 where it has none."""
    return tensor.untyped_storage().data_ptr()


def geometry(tensor: Tensor) -> Geometry:
    return memory(tensor), int(tensor.storage_offset()), tuple(tensor.shape), tensor.stride(), tensor.dtype


def substituted(value: Any, function: Callable[[Tensor], Any]) -> Any:
    """`value` with every tensor in its nested lists, tuples and dicts replaced."""
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, Mapping):
        return {key: substituted(part, function) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(substituted(part, function) for part in value)
    return value


def tensors(value: Any) -> Iterator[Tensor]:
    """All tensors in nested lists, tuples and dicts."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from tensors(part)
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from tensors(part)
