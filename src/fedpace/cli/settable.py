"""What `--set` may set: parameters of an algorithm's function, and the rules of the algorithm that it makes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedpace.errors import ConfigError, require, suggested
from fedpace.expressions import rule_classes
from fedpace.plug_ins import PlugIn
from fedpace.untrusted import brief

if TYPE_CHECKING:
    from fedpace.algorithm import Algorithm

_LITERALS = (str, int, float, list, tuple)
_VALUES = ("name", "clip", "per_tensor")  # fields of Algorithm that are no rules


def settable(function: Callable[..., Any], folder: Path | None) -> Callable[..., Algorithm]:
    """The function with the fields of Algorithm as further parameters; plug-ins among the values are built."""
    signature = inspect.signature(function)
    fresh = [name for name in _fields() if name not in signature.parameters]

    @wraps(function)
    def made(**given: Any) -> Algorithm:
        from fedpace.algorithm import Algorithm

        values = {name: _built(value, folder) for name, value in given.items()}
        rules = {name: value for name, value in values.items() if _is_rule(name, value, signature)}
        algorithm = function(**{name: value for name, value in values.items() if name not in rules})
        require(
            isinstance(algorithm, Algorithm), f"the result of {function.__name__}", algorithm, "an Algorithm"
        )
        return replace(algorithm, **_checked(rules)) if rules else algorithm  # type: ignore[no-any-return]

    more = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in fresh]
    made.__signature__ = signature.replace(parameters=_in_order([*signature.parameters.values(), *more]))  # type: ignore[attr-defined]
    return made


def _in_order(parameters: list[inspect.Parameter]) -> list[inspect.Parameter]:
    return sorted(parameters, key=lambda parameter: parameter.kind)  # `**others` come last


def _fields() -> list[str]:
    from fedpace.algorithm import Algorithm

    return [each.name for each in fields(Algorithm)]


def _built(value: Any, folder: Path | None) -> Any:
    return value.built(folder) if isinstance(value, PlugIn) else value


def _is_rule(name: str, value: Any, signature: inspect.Signature) -> bool:
    """Whether it replaces a rule; where the function has such a parameter, only if that one takes words alone."""
    if name not in signature.parameters:
        return name in _fields()
    words_only = signature.parameters[name].annotation in (str, "str")
    return name in _fields() and words_only and not isinstance(value, str)


def _checked(rules: dict[str, Any]) -> dict[str, Any]:
    for name, value in rules.items():
        plain = value is None and name != "correction" or isinstance(value, _LITERALS)
        if plain and name not in _VALUES:
            meant = f"{value}()" if isinstance(value, str) and value in rule_classes() else ""
            said = f"{name} must be a rule with its brackets, such as Median(); got {brief(value)}"
            raise ConfigError(suggested(meant, said))
    return rules
