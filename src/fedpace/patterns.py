"""Patterns of parameter names."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from fedpace.errors import ConfigError


def fits(name: str, pattern: str) -> bool:
    """Whether a pattern fits a name from one of its dots on: `lora_*` fits `layers.0.lora_A.weight`."""
    parts = name.split(".")
    return any(fnmatchcase(".".join(parts[k:]), pattern) for k in range(len(parts)))


def fitting(names: Sequence[str], patterns: Sequence[str], what: str) -> tuple[str, ...]:
    """The names that a pattern fits, in their own order; ConfigError for a pattern that fits none."""
    for pattern in patterns:
        if not any(fits(name, pattern) for name in names):
            shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
            raise ConfigError(f"{what} must fit the name of a parameter ({shown}); got {pattern!r}")
    return tuple(name for name in names if any(fits(name, pattern) for pattern in patterns))
