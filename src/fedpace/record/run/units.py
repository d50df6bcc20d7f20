"""Numbers as people read them."""

from __future__ import annotations

_BYTES = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))


def byte_unit(largest: float) -> tuple[float, str]:
    """The unit in which `largest` is at least 1: (bytes per unit, name)."""
    return next(unit for unit in _BYTES if largest >= unit[0] or unit[0] == 1.0)


def format_bytes(count: float) -> str:
    """`1.62 MB`, `980 B`."""
    size, name = byte_unit(count)
    return f"{count:.0f} B" if size == 1.0 else f"{_three_digits(count / size)} {name}"


def format_seconds(seconds: float) -> str:
    """`12.5 s`, `1,204 s`: always seconds, as virtual time is compared across runs."""
    return f"{seconds:,.0f} s" if seconds >= 1000 else f"{_three_digits(seconds)} s"


def _three_digits(value: float) -> str:
    if 0 < value < 0.1:
        return f"{value:.2g}"
    decimals = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:.{decimals}f}"
