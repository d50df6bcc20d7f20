"""`--dp epsilon=8,delta=1e-6` or `--dp noise=1.1,clip=0.5`: privacy on the command line."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from fedpace.cli.settings import parse_value
from fedpace.errors import ConfigError, unknown

if TYPE_CHECKING:
    from fedpace.algorithm import Algorithm

SHORT = {"noise": "noise_multiplier"}


def add_option(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--dp",
        type=words,
        metavar="NAME=VALUE,...",
        help="differential privacy: epsilon=8,delta=1e-6 calibrates the noise, noise=1.1,clip=0.5 reports epsilon",
    )


def words(text: str) -> str:
    """The words as they are, once they are known to make a rule; argparse's `type`."""
    try:
        parsed(text)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def parsed(text: str) -> dict[str, Any]:
    """Fields of ClientDP by name."""
    from fedpace.privacy import ClientDP

    known = [each.name for each in fields(ClientDP)]
    chosen: dict[str, Any] = {}
    for word in text.split(","):
        short, equals, value = word.partition("=")
        if not equals:
            raise ConfigError(f"must be name=value, with commas between; got {word!r}")
        name = SHORT.get(short, short)
        if name not in known:
            raise unknown("parameter", short, [*SHORT, *known])
        chosen[name] = parse_value(value)
    ClientDP(**chosen)
    return chosen


def made_private(algorithm: Algorithm, text: str | None, clients: int, rounds: int) -> Algorithm:
    """The algorithm with this privacy; where a budget is given and no noise, with the least that keeps it."""
    if text is None:
        return algorithm
    from fedpace.privacy import ClientDP, calibrated

    chosen = parsed(text)
    private = replace(algorithm, privacy=ClientDP(**chosen))
    if "noise_multiplier" in chosen:
        return private
    if "epsilon" not in chosen:
        raise ConfigError(
            f"--dp must have a budget, epsilon=8, or a noise multiplier, noise=1.1; got {text!r}"
        )
    return replace(private, privacy=calibrated(ClientDP(**chosen), algorithm.pace, clients, rounds))


def private_function(
    function: Callable[..., Algorithm], args: argparse.Namespace
) -> Callable[..., Algorithm]:
    """An algorithm's function whose algorithms are private, if --dp says so."""
    text, clients, rounds = args.dp, args.clients, args.rounds
    if text is None:
        return function

    @functools.wraps(function)
    def private(**settings: Any) -> Algorithm:
        return made_private(function(**settings), text, clients, rounds)

    return private
