"""argparse with one-line errors: what, what is allowed, what was given."""

from __future__ import annotations

import argparse
import math
import re
from typing import Any, NoReturn

from fedpace.cli.parameters import MEANINGS
from fedpace.cli.wrapping import WrappedHelp
from fedpace.errors import MAX_COUNT, ConfigError, nearest, unknown
from fedpace.expressions import MOST
from fedpace.untrusted import brief

_INVALID_CHOICE = re.compile(
    r"argument (?P<what>.+?): invalid choice: (?P<got>.+?) \(choose from (?P<all>.+)\)"
)
_INVALID_VALUE = re.compile(r"argument (?P<what>[^:]+): (?P<message>.+)", re.DOTALL)


class Parser(argparse.ArgumentParser):
    """Raises ConfigError where argparse would print its usage and exit."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"allow_abbrev": False, "formatter_class": WrappedHelp, **options})

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        known, extra = self.parse_known_args(args, namespace)
        for word in extra:
            if word.startswith("-"):
                name = word.partition("=")[0]
                raise unknown("option", name, self._option_string_actions, self._as_setting(name))
            raise ConfigError(f"argument must be among those that --help lists; got {word!r}")
        return known

    def _as_setting(self, option: str) -> str:
        """`--lr` as it is said here, where it is a parameter of algorithms."""
        able = "--set" in self._option_string_actions
        parameter = nearest(option, MEANINGS, surely=True) if able else ""
        return f"--set {parameter}=VALUE" if parameter else ""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(_reworded(message))


def add_action(
    actions: argparse._SubParsersAction[Any], name: str, description: str
) -> argparse.ArgumentParser:
    """A sub-command, described in its own help as in that of its command."""
    parser: argparse.ArgumentParser = actions.add_parser(name, help=description, description=description)
    return parser


MOST_PROCESSES = 1024
MOST_REPEATS = 10_000
LARGEST = 1e12  # of any other number: its fourth power, and the product of several, is still one


def count(text: str, low: int = 1, high: int = MOST) -> int:
    """A whole number of at least `low`, as argparse's `type`."""
    if not re.fullmatch(r"[0-9]+", text) or len(text) <= 20 and int(text) < low:
        raise argparse.ArgumentTypeError(f"must be a whole number >= {low}; got {brief(text)}")
    if len(text) > 20 or int(text) > high:
        raise argparse.ArgumentTypeError(f"must be a whole number in {low}..{high}; got {brief(text)}")
    return int(text)


class DefaultCount(int):
    """A number that was not given: tasks that know their own may take another."""


def seed(text: str) -> int:
    """A whole number >= 0 that a database can hold, as argparse's `type`."""
    return count(text, low=0, high=MAX_COUNT)


def processes(text: str) -> int:
    """How many processes at a time, as argparse's `type`."""
    return count(text, high=MOST_PROCESSES)


def repeats(text: str) -> int:
    """A number of repetitions, as argparse's `type`."""
    return count(text, high=MOST_REPEATS)


def number(text: str, low: float = -LARGEST, high: float = LARGEST) -> float:
    """A number that can be computed with, as argparse's `type`."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not low <= value <= high:
        raise argparse.ArgumentTypeError(f"must be a number in [{low:g}, {high:g}]; got {brief(text)}")
    return value


def share(text: str) -> float:
    """A number from 0 to 1, as argparse's `type`."""
    return number(text, low=0, high=1)


def amount(text: str) -> float:
    """A number >= 0, as argparse's `type`."""
    return number(text, low=0)


def address(text: str) -> tuple[str, int]:
    """`PORT` on this machine alone, or `HOST:PORT`, as argparse's `type`; port 0: a free one."""
    host, _, port = text.rpartition(":")
    if not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > 65535 or ":" in text[:1]:
        raise argparse.ArgumentTypeError(f"must be PORT or HOST:PORT, a port in 0..65535; got {brief(text)}")
    return host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port)


def _reworded(message: str) -> str:
    if choice := _INVALID_CHOICE.fullmatch(message):
        allowed = [name.strip("' ") for name in choice["all"].split(",")]
        return str(unknown(choice["what"], choice["got"].strip("'"), allowed))
    if value := _INVALID_VALUE.fullmatch(message):
        return f"{value['what']} {value['message']}"
    return message
