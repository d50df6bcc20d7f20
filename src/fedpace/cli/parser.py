"""argparse with our way of saying no: one line of what, what is allowed, what was given."""

from __future__ import annotations

import argparse
import re
from typing import Any, NoReturn

from fedpace.errors import ConfigError, unknown

_INVALID_CHOICE = re.compile(
    r"argument (?P<what>.+?): invalid choice: (?P<got>.+?) \(choose from (?P<all>.+)\)"
)
_INVALID_VALUE = re.compile(r"argument (?P<what>[^:]+): (?P<message>.+)", re.DOTALL)


class Parser(argparse.ArgumentParser):
    """Raises ConfigError where argparse would print its usage and exit."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **options})

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        known, extra = self.parse_known_args(args, namespace)
        for word in extra:
            if word.startswith("-"):
                raise unknown("option", word.partition("=")[0], self._option_string_actions)
            raise ConfigError(f"argument must be among those that --help lists; got {word!r}")
        return known

    def error(self, message: str) -> NoReturn:
        raise ConfigError(_reworded(message))


def count(text: str, low: int = 1) -> int:
    """A whole number of at least `low`, as argparse's `type`."""
    if not re.fullmatch(r"[0-9]+", text) or int(text) < low:
        raise argparse.ArgumentTypeError(f"must be a whole number >= {low}; got {text!r}")
    return int(text)


def seed(text: str) -> int:
    """A whole number >= 0 that a database can hold, as argparse's `type`."""
    number = count(text, low=0)
    if number >= 2**63:
        raise argparse.ArgumentTypeError(f"must be below 2^63; got {text!r}")
    return number


def _reworded(message: str) -> str:
    if choice := _INVALID_CHOICE.fullmatch(message):
        allowed = [name.strip("' ") for name in choice["all"].split(",")]
        return str(unknown(choice["what"], choice["got"].strip("'"), allowed))
    if value := _INVALID_VALUE.fullmatch(message):
        return f"{value['what']} {value['message']}"
    return message
