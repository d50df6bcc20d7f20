"""Rules written as text, `TopK(ratio=0.01)`, read without executing anything but their constructors."""

from __future__ import annotations

import ast
import importlib
import inspect
import math
import threading
from collections.abc import Callable, Mapping
from typing import Any

from fedpace.errors import ConfigError, unknown
from fedpace.untrusted import brief

MOST = 2**31 - 1  # of anything that is counted: clients, server steps
_RULES = (
    "pace",
    "local",
    "link",
    "aggregate",
    "server_opt",
    "privacy.client_dp",
)  # where the classes in a value may come from

_PARSING = threading.Lock()
Constructors = Mapping[str, Callable[..., Any]]


def parsed(text: str) -> ast.expr:
    """The expression in `text`; SyntaxError and its like as they are.

    One thread at a time: Python 3.11 counts the depth of its parser for all threads together, and raises SystemError
    where two of them are in it.
    """
    with _PARSING:
        return ast.parse(text, mode="eval").body


def evaluate(node: ast.expr, constructors: Constructors) -> Any:
    """Literals, and calls of these constructors with literals inside; nothing else is ever executed."""
    match node:
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords):
            options = {key.arg: evaluate(key.value, constructors) for key in keywords if key.arg}
            return _construct(name, [evaluate(arg, constructors) for arg in args], options, constructors)
        case ast.List(elts=items):
            return [evaluate(item, constructors) for item in items]
        case ast.Tuple(elts=items):
            return tuple(evaluate(item, constructors) for item in items)
        case _:
            return tame(ast.literal_eval(node))


def tame(value: Any) -> Any:
    """A literal that no loop would run for ever over: all whole numbers of the algorithms count something."""
    for number in value if isinstance(value, tuple | list | set | dict) else (value,):
        if isinstance(number, int) and abs(number) > MOST:
            raise ConfigError(f"whole numbers must be in {-MOST}..{MOST}; got {brief(number)}")
        if isinstance(number, float) and not math.isfinite(number):
            raise ConfigError(f"numbers must be finite; got {number}")
    return value


def rule_classes() -> dict[str, type]:
    """Public classes of the rule packages, by name."""
    modules = [importlib.import_module(f"fedpace.{package}") for package in _RULES]
    named = {name: getattr(module, name) for module in modules for name in module.__all__}
    return {name: value for name, value in named.items() if inspect.isclass(value)}


def _construct(name: str, args: list[Any], options: Mapping[str, Any], constructors: Constructors) -> Any:
    if name not in constructors:
        raise unknown("rule", name, constructors)
    try:
        return constructors[name](*args, **options)
    except TypeError as error:
        signature = f"{name}{inspect.signature(constructors[name])}"
        raise ConfigError(f"rule must be called as {signature}; got {_plain(error)}") from None


def _plain(error: TypeError) -> str:
    return str(error).split(".__init__() ")[-1]
