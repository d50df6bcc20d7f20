"""numpy's .npy files of numbers: the header is text, and is matched instead of evaluated."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from fedpace.errors import ConfigError
from fedpace.tasks.datasets.data import Array
from fedpace.untrusted import open_regular

# the magic number, the version, the length of the header; the header as numpy writes it
_MAGIC = re.compile(rb"\x93NUMPY(?:\x01\0(..)|[\x02\x03]\0(....))", re.DOTALL)
_HEADER = re.compile(
    r"\{'descr': '([^']{1,20})', 'fortran_order': (False|True), 'shape': \(((?:\d{1,18}, ?){0,4}\d{0,18})\), \}\s*"
)
_WHOLE_NUMBERS = re.compile(r"\|[iu]1|[<>][iu][248]")
NUMBERS = re.compile(r"\|[iu]1|[<>][iu][248]|[<>]f[248]")
MAX_HEADER_BYTES = 1000


class ArrayHeader(NamedTuple):
    """What an .npy file says about its values, and where they begin."""

    kind: np.dtype[np.generic]
    shape: tuple[int, ...]
    order: Literal["C", "F"]
    start: int


def from_npy(content: bytes, what: str, kinds: re.Pattern[str] = _WHOLE_NUMBERS) -> Array:
    """The array in an .npy file, whose numbers are of one of these kinds."""
    kind, shape, order, start = _header(content[:MAX_HEADER_BYTES], len(content), what, kinds)
    return np.frombuffer(content, kind, offset=start).reshape(shape, order=order)


def map_npy(path: Path) -> Array:
    """The array in an .npy file on the disk, read-only and without reading it."""
    with open_regular(path) as file:
        beginning = file.read(MAX_HEADER_BYTES)
        header = _header(beginning, path.stat().st_size, str(path))
        return np.memmap(file, header.kind, "r", header.start, header.shape, header.order)


def _header(beginning: bytes, size: int, what: str, kinds: re.Pattern[str] = _WHOLE_NUMBERS) -> ArrayHeader:
    magic = _MAGIC.match(beginning)
    if magic is None:
        raise ConfigError(f"{what} must be an .npy file; it starts with {beginning[:8].hex()!r}")
    start = magic.end() + int.from_bytes(magic[1] or magic[2], "little")
    found = _HEADER.fullmatch(beginning[magic.end() : start].decode("latin-1"))
    if found is None:
        raise ConfigError(f"{what} must be an .npy file with type, order and shape; it is damaged")
    code, shape = found[1], tuple(int(length) for length in re.findall(r"\d+", found[3]))
    if not kinds.fullmatch(code):
        allowed = "numbers" if kinds is NUMBERS else "whole numbers in 0..255"
        raise ConfigError(f"{what} must be {allowed}; got {code} {shape}")
    kind, left = np.dtype(code), size - start
    if not shape or min(shape) < 1 or math.prod(shape) * kind.itemsize != left:
        raise ConfigError(
            f"{what} must have as many values as its shape {shape} says; got {max(0, left):,} bytes"
        )
    return ArrayHeader(kind, shape, "F" if found[2] == "True" else "C", start)
