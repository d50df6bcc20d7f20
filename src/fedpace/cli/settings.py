"""`--set name=value`: parameters of an algorithm's function, checked against its signature."""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fedpace.cli.parser import MOST
from fedpace.errors import ConfigError, unknown
from fedpace.untrusted import brief

_RULES = ("pace", "local", "link", "aggregate", "server_opt")  # where the classes in a value may come from
_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?")
_RANGE = re.compile(r"(-?\d{1,20})\.\.(-?\d{1,20})")
_CONSTANTS = {"true": True, "false": False, "none": None}  # in any case, as people write them
_WORD = re.compile(r"[A-Za-z_][\w.:,/+-]*")


def setting(text: str) -> tuple[str, Any]:
    """`beta=0.9` -> ("beta", 0.9), as argparse's `type`."""
    name, equals, value = text.partition("=")
    if not equals or not _NAME.fullmatch(name):
        raise argparse.ArgumentTypeError(f"must be name=value; got {text!r}")
    try:
        return name, parse_value(value.strip())
    except ConfigError as error:
        raise argparse.ArgumentTypeError(f"{name}: {error}") from None


def parse_value(text: str) -> Any:
    """A Python literal, a range `1..6` as (1, 6), a rule like `TopK(ratio=0.01)`, or a plain word."""
    if text.lower() in _CONSTANTS:
        return _CONSTANTS[text.lower()]
    if match := _RANGE.fullmatch(text):
        return _tame((int(match[1]), int(match[2])))
    try:
        tree = ast.parse(text, mode="eval").body
        return _evaluate(tree)
    except (SyntaxError, ValueError, RecursionError) as error:
        if isinstance(error, ConfigError):
            raise
    if _WORD.fullmatch(text):
        return text
    allowed = "a number, a word, a list, 1..6, or a rule such as TopK(ratio=0.01)"
    raise ConfigError(f"value must be {allowed}; got {brief(text)}")


def distribute(
    settings: Iterable[tuple[str, Any]], functions: Mapping[str, Callable[..., Any]]
) -> dict[str, dict[str, Any]]:
    """`beta` goes to every function that has such a parameter, `fedgm.beta` to that one."""
    parameters = {name: inspect.signature(function).parameters for name, function in functions.items()}
    chosen: dict[str, dict[str, Any]] = {name: {} for name in functions}
    for key, value in settings:
        owner, dot, name = key.rpartition(".")
        if dot and owner not in functions:
            raise unknown(f"algorithm of --set {key}", owner, functions)
        takers = [taker for taker in functions if name in parameters[taker] and owner in ("", taker)]
        if not takers:
            asked = [owner] if dot else list(functions)
            raise unknown(
                f"parameter of {' or '.join(asked)}", name, {p for taker in asked for p in parameters[taker]}
            )
        for taker in takers:
            chosen[taker][name] = value
    return chosen


def build(function: Callable[..., Any], chosen: Mapping[str, Any], **offered: Any) -> Any:
    """Call an algorithm's function; what is `offered` is passed on only if it takes it and nothing was chosen."""
    parameters = inspect.signature(function).parameters
    values = {name: value for name, value in offered.items() if name in parameters} | dict(chosen)
    missing = [name for name, p in parameters.items() if p.default is p.empty and name not in values]
    if missing:
        raise ConfigError(f"{function.__name__} needs a value: --set {missing[0]}=VALUE")
    return function(**values)


def _evaluate(node: ast.expr) -> Any:
    """Literals, and calls of rule classes with literals inside; nothing else is ever executed."""
    match node:
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords):
            options = {key.arg: _evaluate(key.value) for key in keywords if key.arg}
            return _construct(name, [_evaluate(arg) for arg in args], options)
        case ast.List(elts=items):
            return [_evaluate(item) for item in items]
        case ast.Tuple(elts=items):
            return tuple(_evaluate(item) for item in items)
        case _:
            return _tame(ast.literal_eval(node))


def _tame(value: Any) -> Any:
    """A literal that no loop would run for ever over: all whole numbers of the algorithms count something."""
    for number in value if isinstance(value, tuple | list | set | dict) else (value,):
        if isinstance(number, int) and abs(number) > MOST:
            raise ConfigError(f"whole numbers must be in {-MOST}..{MOST}; got {brief(number)}")
        if isinstance(number, float) and not math.isfinite(number):
            raise ConfigError(f"numbers must be finite; got {number}")
    return value


def _construct(name: str, args: list[Any], options: Mapping[str, Any]) -> Any:
    rules = rule_classes()
    if name not in rules:
        raise unknown("rule", name, rules)
    try:
        return rules[name](*args, **options)
    except TypeError as error:
        signature = f"{name}{inspect.signature(rules[name])}"
        raise ConfigError(f"rule must be called as {signature}; got {_plain(error)}") from None


def rule_classes() -> dict[str, type]:
    """Public classes of the rule packages, by name."""
    modules = [importlib.import_module(f"fedpace.{package}") for package in _RULES]
    named = {name: getattr(module, name) for module in modules for name in module.__all__}
    return {name: value for name, value in named.items() if inspect.isclass(value)}


def _plain(error: TypeError) -> str:
    return str(error).split(".__init__() ")[-1]
