"""Whether a module computes the same every time: what it does in Python is not replayed."""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType
from typing import Any

import numpy as np
from torch import Tensor, nn

from fedpace.tasks.captured.record import Unfit

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
DEPTH = 6  # of objects within objects


def require_plain(module: nn.Module) -> None:
    """Refuse hooks, and code that assigns to global variables."""
    for part in module.modules():
        if any(getattr(part, hooks, None) for hooks in HOOKS):
            raise Unfit(f"{type(part).__name__} has hooks")
        if any(map(_assigns_globals, _codes(type(part)))):
            raise Unfit(f"{type(part).__name__} assigns to a global variable")
    if any(p._backward_hooks for p in module.parameters()):
        raise Unfit("a parameter has hooks")


def _codes(kind: type) -> Iterator[CodeType]:
    """Of the methods of a class; torch's own are known."""
    for base in kind.__mro__:
        if not base.__module__.startswith("torch."):
            yield from (part.__code__ for part in vars(base).values() if isinstance(part, FunctionType))


def _assigns_globals(code: CodeType) -> bool:
    return any(step.opname in ("STORE_GLOBAL", "DELETE_GLOBAL") for step in dis.get_instructions(code))


def python_state(*parts: object) -> object:
    """What a forward pass in Python can change, to be compared: attributes, and the generators of Python and numpy."""
    numbers: Any = np.random.get_state()
    draws: Any = sys.modules.get("random")  # read, never drawn from
    return (
        draws and draws.getstate(),
        numbers[1].tobytes(),
        numbers[2:],
        [_plain(part, DEPTH) for part in parts],
    )


def _plain(value: Any, depth: int) -> object:
    """A copy of plain values; tensors, which operations change, are left out, and other objects are themselves."""
    if isinstance(value, (bool, int, float, complex, str, bytes, type(None))):
        return value
    if isinstance(value, (Tensor, np.ndarray)) or depth == 0:
        return id(value)
    if isinstance(value, Mapping):
        return [(_plain(key, 1), _plain(part, depth - 1)) for key, part in value.items()]
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(part, depth - 1) for part in value]
    if isinstance(value, nn.Module):
        return [_plain(vars(part), depth - 1) for part in value.modules()]
    return id(value), _plain(getattr(value, "__dict__", None), depth - 1)
