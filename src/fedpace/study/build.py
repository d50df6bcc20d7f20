"""Algorithms from what people write: a value, a function that makes one, its name, or `module:function`."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any

from fedpace.algorithm import Algorithm
from fedpace.errors import ConfigError, require, unknown
from fedpace.plug_ins import PLACE
from fedpace.untrusted import brief

AlgorithmLike = Algorithm | str | Callable[..., Algorithm]


def named_algorithms() -> dict[str, Callable[..., Algorithm]]:
    """The functions of `fedpace.algorithms`, by name."""
    from fedpace import algorithms

    return {name: getattr(algorithms, name) for name in algorithms.__all__}


def rows_of(
    algorithms: Mapping[str, AlgorithmLike] | Sequence[AlgorithmLike], *, clients: int, rounds: int
) -> dict[str, Algorithm]:
    """Algorithms by the names of their rows; those without one are called after themselves, and numbered."""
    require(not isinstance(algorithms, str | Algorithm), "algorithms", algorithms, "a dict or a list of them")
    require(len(algorithms) > 0, "algorithms", [], "at least one")
    if isinstance(algorithms, Mapping):
        return {str(row): algorithm_of(value, clients, rounds) for row, value in algorithms.items()}
    made = [algorithm_of(value, clients, rounds) for value in algorithms]
    rows: dict[str, Algorithm] = {}
    for algorithm in made:
        rows[_free(algorithm.name or "custom", rows)] = algorithm
    return rows


def _free(name: str, taken: Mapping[str, object]) -> str:
    names = (name if number == 1 else f"{name}-{number}" for number in range(1, len(taken) + 2))
    return next(each for each in names if each not in taken)


def algorithm_of(value: AlgorithmLike, clients: int, rounds: int) -> Algorithm:
    if isinstance(value, str):
        value = imported(value) if ":" in value else _named(value)
    made = value if isinstance(value, Algorithm) else call(value, {}, clients=clients, rounds=rounds)
    made.pace.init(clients)  # refuses sizes that do not fit before anything is run
    return made


def call(function: Callable[..., Any], chosen: Mapping[str, Any], *, clients: int, rounds: int) -> Algorithm:
    """The algorithm a function makes; it is offered how long the run is, and sizes no larger than the clients."""
    require(callable(function), "algorithm", function, "an Algorithm, a function that makes one, or its name")
    parameters = inspect.signature(function).parameters
    values = {**_offered(parameters, clients, rounds), **chosen}
    variable = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    needed = [name for name, p in parameters.items() if p.default is p.empty and p.kind not in variable]
    missing = [name for name in needed if name not in values]
    label = getattr(function, "__name__", "the function")
    require(not missing, f"parameters of {label}", sorted(chosen), f"given, {', '.join(missing)} among them")
    made = function(**values)
    require(isinstance(made, Algorithm), f"the result of {label}", made, "an Algorithm")
    return made  # type: ignore[no-any-return]


def _offered(parameters: Mapping[str, inspect.Parameter], clients: int, rounds: int) -> dict[str, Any]:
    sizes = {name: parameters[name].default for name in ("buffer", "concurrency") if name in parameters}
    fitting = {name: min(size, clients) for name, size in sizes.items() if isinstance(size, int)}
    return {**({"rounds": rounds} if "rounds" in parameters else {}), **fitting}


def _named(name: str) -> Callable[..., Algorithm]:
    known = named_algorithms()
    if name not in known:
        raise unknown("algorithm", name, known)
    return known[name]


def places(**parts: object) -> dict[str, str]:
    """Where own functions among these can be imported from, by name of the part."""
    found = {name: place_of(value) for name, value in parts.items()}
    return {name: place for name, place in found.items() if place is not None}


def place_of(function: object) -> str | None:
    """`module:function` if that is how anybody can import it; None for what a script or another function defines."""
    if isinstance(function, str):
        return function if PLACE.fullmatch(function) else None
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
    if not isinstance(function, FunctionType) or module in (None, "__main__"):
        return None
    place = f"{module}:{name}"
    return place if PLACE.fullmatch(place) else None


def imported(place: str) -> Callable[..., Any]:
    """The function `module:function`: one that is defined there, and not one of Python's own."""
    if not PLACE.fullmatch(place):
        raise ConfigError(f"a function must be named as module:function; got {brief(place)}")
    module, _, name = place.partition(":")
    own = module.partition(".")[0] in sys.stdlib_module_names
    require(not own, "module", module, "one of yours, not of Python's own")
    try:
        found = getattr(importlib.import_module(module), name, None)
    except ImportError as error:
        raise ConfigError(f"{place} cannot be imported ({error})") from None
    defined = isinstance(found, FunctionType) and found.__module__ == module
    require(defined, f"{name} of {module}", found, "a function defined there")
    return found  # type: ignore[return-value]
