"""Untrusted input: files that may be pipes, values of any type, text with control characters."""

from __future__ import annotations

import errno
import math
import numbers
import os
import re
import stat
from pathlib import Path
from typing import Any, BinaryIO

_NO_WAITING = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)  # where the system has these


def open_regular(path: str | Path) -> BinaryIO:
    """A regular file to read from; OSError for pipes and devices, which are neither waited for nor read."""
    handle = os.open(path, os.O_RDONLY | _NO_WAITING)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return open(handle, "rb")


def read_regular(path: str | Path, max_bytes: int | None = None) -> bytes:
    """The content of a regular file; OSError if it is larger than anything that is expected there."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if max_bytes is not None and size > max_bytes:
            raise OSError(errno.EFBIG, f"it has {size:,} bytes, more than {max_bytes:,}", str(path))
        return file.read()


LONGEST_SHOWN = 200
_LONG_LIST = re.compile(r"(?<![\w.])(?:-?[\d.e+-]{1,25}, ){12,}-?[\d.e+-]{1,25}")


def as_number(value: object) -> float:
    """The number, or NaN for what is none: text, None, True, and integers beyond the largest float."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan


def brief(got: object) -> str:
    """`repr`, shortened where the value is long."""
    try:
        text = short_lists(repr(got))
    except ValueError:  # an integer of more digits than Python writes out
        return "a number of thousands of digits"
    return (
        text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN // 2]}... ({len(text):,} characters)"
    )


def short_lists(text: str) -> str:
    """The text with long lists of numbers cut: `[0, 1, 2, ... 500 numbers]`."""
    return _LONG_LIST.sub(_first_few, text)


def _first_few(match: re.Match[str]) -> str:
    numbers = match[0].split(", ")
    return f"{', '.join(numbers[:3])}, ... {len(numbers):,} numbers"


def visible(text: str) -> str:
    """The text on one line, with control characters written out: `\\x1b` instead of an order to the terminal."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


class Number:
    """A shape: a finite number."""


class Whole:
    """A shape: a whole number that 64 bits hold."""


def fits(value: object, shape: Any) -> bool:
    """Whether a value of JSON has this shape.

    A type; Number; Whole; None or `(shape, ...)`: one of these; `[shape]`: a list of such; `{str: shape}`: an object
    whose values are such; `{"name": shape}`: an object that has these fields.
    """
    if shape in (Number, Whole):
        return _is_number(value, whole=shape is Whole)
    if isinstance(shape, type):
        return isinstance(value, shape)
    if isinstance(shape, tuple):
        return any(fits(value, option) for option in shape)
    if isinstance(shape, list):
        return isinstance(value, list) and all(fits(item, shape[0]) for item in value)
    if isinstance(shape, dict):
        return isinstance(value, dict) and _has_fields(value, shape)
    return value is None


def _has_fields(value: dict[Any, Any], shape: dict[Any, Any]) -> bool:
    if str in shape:
        return all(isinstance(name, str) and fits(item, shape[str]) for name, item in value.items())
    return all(name in value and fits(value[name], of) for name, of in shape.items())


def _is_number(value: object, *, whole: bool) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if isinstance(value, int):
        return abs(value) < 2**63
    return not whole and math.isfinite(value)
