"""Losses, metrics and modules as text: the same for the same, another for another, in any process."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from types import CodeType

from torch import nn

from fedpace.tasks.examples import as_array
from fedpace.tasks.fingerprint import sha256

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # of objects without a repr of their own


def signature(value: object) -> str:
    """What decides how `value` computes, as far as it can be seen."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {signature(part)}" for key, part in value.items()) + "}"
    if isinstance(value, nn.Module):
        return _module(value)
    if isinstance(value, functools.partial):
        return f"{signature(value.func)}({value.args!r}, {value.keywords!r})"
    code = getattr(value, "__code__", None)
    name = getattr(value, "__qualname__", None)
    if isinstance(code, CodeType):
        closure = [signature(cell.cell_contents) for cell in getattr(value, "__closure__", None) or ()]
        return f"{name} {_code(code)} {getattr(value, '__defaults__', None)!r} {closure}"
    return _ADDRESS.sub("", name or repr(value))


def _module(module: nn.Module) -> str:
    tensors = [sha256(as_array(tensor)) for tensor in (*module.parameters(), *module.buffers())]
    options = [
        f"{key}={option!r}"
        for part in module.modules()
        for key, option in vars(part).items()
        if key[0] != "_" and key != "training" and isinstance(option, int | float | str)
    ]
    return f"{module} {options} {tensors}"


def _code(code: CodeType) -> str:
    inner = [_code(const) if isinstance(const, CodeType) else repr(const) for const in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {inner}"
