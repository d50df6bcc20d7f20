"""When the model is evaluated: every so many steps, virtual seconds or bytes."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from fedpace.errors import ConfigError, require_count, require_number
from fedpace.untrusted import brief

_UNITS = {
    "s": ("seconds", 1.0),
    "B": ("size_bytes", 1.0),
    "kB": ("size_bytes", 1e3),
    "MB": ("size_bytes", 1e6),
    "GB": ("size_bytes", 1e9),
}


@dataclass(frozen=True, slots=True)
class EvaluationInterval:
    """At the first step at or past each multiple of one of these."""

    steps: int | None = None
    seconds: float | None = None
    size_bytes: float | None = None

    def __post_init__(self) -> None:
        if self.steps is not None:
            require_count(self.steps, "evaluate_every")
        for value in (self.seconds, self.size_bytes):
            if value is not None:
                require_number(value, "evaluate_every", above=0, allowed="> 0")

    def marks(self, version: int, seconds: float, size_bytes: int) -> tuple[int, int, int]:
        """How many multiples lie behind; evaluation is due when this changes."""
        return (
            version // self.steps if self.steps else 0,
            _multiples(seconds, self.seconds) if self.seconds else 0,
            _multiples(size_bytes, self.size_bytes) if self.size_bytes else 0,
        )


def _multiples(amount: float, of: float) -> int:
    """0.6 s has six tenths of a second behind it, though 0.6 / 0.1 is a little less than 6."""
    return math.floor(amount / of + 1e-9)


def every(value: int | str | EvaluationInterval | None) -> EvaluationInterval | None:
    """`10` steps, `"30s"` of virtual time, `"5MB"` of traffic; None or "never"."""
    if value is None or value == "never":
        return None
    if isinstance(value, EvaluationInterval):
        return value
    if not isinstance(value, str) or re.fullmatch(r"[+-]?\d{1,20}", value):
        return EvaluationInterval(steps=int(value) if isinstance(value, str) else value)
    match = re.fullmatch(r"(\d+\.?\d*|\.\d+)\s*(s|[kMG]?B)", value.strip())
    if match is None:
        raise ConfigError(
            f"evaluate_every must be steps (10), seconds (30s), bytes (5MB) or never; got {brief(value)}"
        )
    name, scale = _UNITS[match[2]]
    return EvaluationInterval(**{name: float(match[1]) * scale})  # type: ignore[arg-type]
