"""What a model costs: its multiply-accumulates for one sample, counted while the sample passes through it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

Count = Callable[[tuple[Any, ...], Any], int]


class MultiplyAccumulates(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Adds up those of the matrix products, convolutions, recurrent layers and attention computed meanwhile.

    Everything else (activations, normalisation, pooling) is small beside them and not counted.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.total = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        count = _COUNTED.get(str(func.overloadpacket))
        self.total += count(args, out) if count is not None else 0
        return out


def multiply_accumulates(call: Callable[[], object]) -> int:
    """Of one call. With gradients enabled: without them some layers take a path that shows no single product."""
    with torch.enable_grad(), MultiplyAccumulates() as counter:
        call()
    total: int = counter.total
    return total


def _product(a: Tensor, b: Tensor) -> int:
    """(..., m, k) times (..., k, n)."""
    return a.numel() * (b.shape[-1] if b.ndim > 1 else 1)


def _convolution(args: tuple[Any, ...], out: Tensor) -> int:
    """Every output is a product with a filter; of a transposed one, every input."""
    inputs, weight, transposed = args[0], args[1], args[6]
    return int((inputs if transposed else out).numel() * math.prod(weight.shape[1:]))


def _recurrent(args: tuple[Any, ...], _: Any) -> int:
    """One layer in one direction: both matrices at every position."""
    inputs, of_input, of_state = args[:3]
    return int(math.prod(inputs.shape[:2]) * (of_input.numel() + of_state.numel()))


def _attention(args: tuple[Any, ...], _: Any) -> int:
    """Scores of every query with every key, and their products with the values."""
    query, key, value = args[:3]
    scores = math.prod(query.shape[:-1]) * key.shape[-2]
    return int(scores * (query.shape[-1] + value.shape[-1]))


_COUNTED: dict[str, Count] = {
    "aten.mm": lambda args, _: _product(args[0], args[1]),
    "aten.bmm": lambda args, _: _product(args[0], args[1]),
    "aten.mv": lambda args, _: _product(args[0], args[1]),
    "aten.dot": lambda args, _: _product(args[0], args[1]),
    "aten.addmm": lambda args, _: _product(args[1], args[2]),
    "aten.baddbmm": lambda args, _: _product(args[1], args[2]),
    "aten.convolution": _convolution,
    "aten.mkldnn_rnn_layer": _recurrent,
    "aten._scaled_dot_product_flash_attention_for_cpu": _attention,
}
