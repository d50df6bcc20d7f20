"""Functions that make algorithms: each declares its own parameters, the shared ones are filled in."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any, ParamSpec, get_args, get_type_hints

from fedpace.algorithm import Algorithm
from fedpace.algorithms.parameters import DEFAULTS
from fedpace.errors import unknown

P = ParamSpec("P")


def named(**defaults: Any) -> Callable[[Callable[P, Algorithm]], Callable[P, Algorithm]]:
    """Give the algorithm that a function makes the function's name, and the function the shared parameters.

    Those in the TypedDict of its `**shared` come first, with the common defaults or with the ones given here.
    They show in its signature, so that help, completion and the command line know them.
    """

    def decorate(function: Callable[P, Algorithm]) -> Callable[P, Algorithm]:
        signature = _expanded(function, defaults)
        values = {name: parameter.default for name, parameter in signature.parameters.items()}

        @wraps(function)
        def algorithm(*wrong: P.args, **given: P.kwargs) -> Algorithm:
            if wrong:
                raise TypeError(
                    f"{function.__name__} takes parameters by name, as in client_lr=0.1; got {wrong[0]!r}"
                )
            for name in given:
                if name not in values:
                    raise unknown(f"parameter of {function.__name__}", name, values)
            made = function(**{**values, **given})  # type: ignore[call-arg]
            return replace(made, name=function.__name__)

        algorithm.__signature__ = signature  # type: ignore[attr-defined]
        return algorithm

    return decorate


def _expanded(function: Callable[..., Algorithm], defaults: dict[str, Any]) -> inspect.Signature:
    """Its signature with `**shared: Unpack[...]` written out."""
    hints = get_type_hints(function)
    own = inspect.signature(function).parameters.values()
    shared = next(p.name for p in own if p.kind is p.VAR_KEYWORD)
    known = {**DEFAULTS, **defaults}
    common = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=known[name], annotation=kind)
        for name, kind in get_type_hints(get_args(hints[shared])[0]).items()
    ]
    rest = [p.replace(annotation=hints[p.name]) for p in own if p.name != shared]
    return inspect.Signature([*common, *rest], return_annotation=Algorithm)
