"""Rules are values and their calls are pure: a rule that writes into its arguments is named."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from fedpace.vector import freeze


def assert_value(rule: Any) -> None:
    """A rule is a frozen dataclass."""
    params = getattr(type(rule), "__dataclass_params__", None)
    assert params is not None and params.frozen, (
        f"{type(rule).__name__} is not a frozen dataclass: a rule is a value; decorate it with "
        f"@dataclass(frozen=True) and keep what changes in its state"
    )


def pure(rule: Any, method: str, *given: Any) -> Any:
    """What the method returns; AssertionError if it writes into anything it was given."""
    frozen(given)
    before = deepcopy(given)
    result = guarded(rule, method, *given)
    assert same(before, given), _sentence(rule, method)
    return result


def guarded(rule: Any, method: str, *given: Any) -> Any:
    """What the method returns; AssertionError with a sentence if it writes into a read-only vector."""
    call: Callable[..., Any] = getattr(rule, method)
    try:
        return call(*given)
    except ValueError as error:
        if "read-only" in str(error):
            raise AssertionError(_sentence(rule, method)) from error
        raise


def frozen(value: Any) -> Any:
    """The same value with every array in it made read-only."""
    if isinstance(value, np.ndarray):
        freeze(value)
    else:
        for entry in _entries(value):
            frozen(entry)
    return value


def same(one: Any, other: Any) -> bool:
    """Whether two values agree to the last bit; what is no state (streams, functions) does not count."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return bool(one.dtype == other.dtype) and one.tobytes() == other.tobytes()
    if isinstance(one, dict) and one.keys() != other.keys():
        return False
    if isinstance(one, (bool, int, str, bytes, set, frozenset)):
        return bool(one == other)
    if isinstance(one, float):
        return repr(one) == repr(other)
    mine, its = _entries(one), _entries(other)
    return len(mine) == len(its) and all(map(same, mine, its))


def _entries(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, (tuple, list)):
        return list(value)
    if is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name) for field in fields(value)]
    return []


def _sentence(rule: Any, method: str) -> str:
    return (
        f"{rule}: {method} writes into what it was given; it must return new vectors and leave its arguments "
        f"and its state as they are"
    )
