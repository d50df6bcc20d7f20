"""The first use of compiled steps on a machine: they are compiled for its processor, which is said while it lasts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def is_cached(function: Any) -> bool:
    """Whether the machine code of a compiled function is on disk, and newer than its source."""
    source = Path(function.py_func.__code__.co_filename)
    folder = Path(getattr(getattr(function, "_cache", None), "cache_path", None) or "")
    kept = folder.glob(f"{source.stem}.{function.py_func.__qualname__}-*.nbi")
    return any(index.stat().st_mtime >= source.stat().st_mtime for index in kept)


def on_terminal() -> bool:
    return sys.stderr.isatty()


@contextmanager
def announced(*functions: Any, seconds: float) -> Iterator[None]:
    """Says on a terminal that compiling takes roughly `seconds` each, where it is not done already, and when it is."""
    missing = [each for each in functions if not (each.signatures or is_cached(each))]
    if not missing or not on_terminal():
        yield
        return
    wait_s = seconds * len(missing)
    print(f"compiling local steps for this machine, once: about {wait_s:.0f} s ...", file=sys.stderr)
    yield
    print("... compiled, and cached for later runs", file=sys.stderr)
