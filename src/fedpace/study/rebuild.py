"""Algorithms, devices and tasks from their `repr`, which is their whole configuration.

Only literals are read, and only classes of fedpace's own rules are called: text from the store executes nothing else.
What is not fedpace's own cannot be rebuilt; the caller must give it.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import math
import pkgutil
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from fedpace.errors import ConfigError
from fedpace.expressions import parsed
from fedpace.untrusted import brief

_RULES = ("pace", "local", "link", "aggregate", "server_opt")
_NAMES = {"inf": math.inf, "nan": math.nan}


def algorithm_from(text: str) -> Any:
    """The algorithm that prints as `text`; ConfigError if it has rules that are not fedpace's own."""
    from fedpace.algorithm import Algorithm
    from fedpace.limits import Limits

    return _rebuilt(text, {**_rules(), "Algorithm": Algorithm, "Limits": Limits}, "algorithm")


def evaluation_from(text: str) -> Any:
    """How often a run is evaluated."""
    from fedpace.record.run.evaluation import EvaluationInterval

    return _rebuilt(text, {"EvaluationInterval": EvaluationInterval}, "evaluate_every")


def stop_from(text: str) -> Any:
    """The rules that end a run early, or None."""
    return _rebuilt(text, {}, "stop")


def number_from(text: str) -> Any:
    """A number, or None."""
    return _rebuilt(text, {}, "a number")


def population_from(text: str) -> Any:
    """The devices that print as `text`."""
    from fedpace.sim import distributions
    from fedpace.sim.population import Population
    from fedpace.sim.resampled import Resampled

    known = {**_classes(distributions), "Population": Population, "Resampled": Resampled}
    return _rebuilt(text, known, "population")


def task_from(text: str) -> Any:
    """A named task or quadratics."""
    from fedpace import tasks
    from fedpace.tasks import partition

    known: dict[str, Callable[..., Any]] = {**_classes(partition), "quadratics": tasks.quadratics}
    if text.startswith("load("):  # torch is imported for nothing else
        known["load"] = tasks.load
    return _rebuilt(text, known, "task")


def _rebuilt(text: str, known: Mapping[str, Callable[..., Any]], what: str) -> Any:
    try:
        made = _evaluated(parsed(text), known)
    except (SyntaxError, ValueError, TypeError, RecursionError, KeyError) as error:
        raise ConfigError(
            f"{what} must be given: {brief(text)} cannot be rebuilt from its text ({error})"
        ) from None
    if repr(made) != text:
        raise ConfigError(f"{what} must be given: {brief(text)} is another when it is rebuilt, {brief(made)}")
    return made


def _evaluated(node: ast.expr, known: Mapping[str, Callable[..., Any]]) -> Any:
    match node:
        case ast.Call(func=ast.Name(id=name), args=[*args], keywords=[*options]):
            if name not in known:
                raise KeyError(f"{name} is not one of fedpace's own")
            values = {str(option.arg): _evaluated(option.value, known) for option in options}
            return known[name](*(_evaluated(arg, known) for arg in args), **values)
        case ast.List(elts=items):
            return [_evaluated(item, known) for item in items]
        case ast.Tuple(elts=items):
            return tuple(_evaluated(item, known) for item in items)
        case ast.Name(id=name) if name in _NAMES:
            return _NAMES[name]
        case _:
            return ast.literal_eval(node)


@cache
def _rules() -> dict[str, type]:
    """Every class of the rule packages, by name: no name means two."""
    found: dict[str, type] = {}
    for package in _RULES:
        home = importlib.import_module(f"fedpace.{package}")
        for module in pkgutil.walk_packages(home.__path__, f"{home.__name__}."):
            found |= _classes(importlib.import_module(module.name))
    return found


def _classes(module: Any) -> dict[str, type]:
    """Public classes that a module has, as far as they are fedpace's."""
    named = {name: value for name, value in vars(module).items() if name[0] != "_" and inspect.isclass(value)}
    return {name: value for name, value in named.items() if value.__module__.startswith("fedpace.")}
