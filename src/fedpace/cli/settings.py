"""`--set name=value`: parameters of an algorithm's function, checked against its signature."""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fedpace.errors import ConfigError, unknown
from fedpace.expressions import evaluate, parsed, rule_classes, tame
from fedpace.plug_ins import PlugIn, names_plug_ins
from fedpace.untrusted import brief

_NAME = re.compile(r"(?:[^=]+\.)?[A-Za-z_]\w*")  # of a parameter, after that of a row
_RANGE = re.compile(r"(-?\d{1,20})\.\.(-?\d{1,20})")
_CONSTANTS = {"true": True, "false": False, "none": None}  # in any case, as people write them
_WORD = re.compile(r"[A-Za-z_*][\w.:,/+*?-]*|\d+(\.[\w*?]+)+")


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
    """A Python literal, a range `1..6` as (1, 6), a rule like `TopK(ratio=0.01)`, a plug-in, or a plain word."""
    if text.lower() in _CONSTANTS:
        return _CONSTANTS[text.lower()]
    if match := _RANGE.fullmatch(text):
        return tame((int(match[1]), int(match[2])))
    if names_plug_ins(text):
        return PlugIn(text)
    try:
        tree = parsed(text)
        return evaluate(tree, rule_classes())
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
