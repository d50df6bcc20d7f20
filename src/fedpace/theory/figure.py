"""A number of the theory, and how far it can be trusted."""

from __future__ import annotations

from dataclasses import dataclass

EXACT = "exact"
SUFFICIENT = "sufficient condition"
UPPER = "upper bound"
ORDER = "order of magnitude"
STABILITY = "mean stability"  # exact for the mean model of a quadratic
MEASURED = "measured"
ASSUMED = "assumed"
ADVICE = "recommended"


@dataclass(frozen=True, slots=True)
class Figure:
    """One number with its name, its standing (one of those above) and where it comes from."""

    name: str
    value: float
    standing: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """Figures about one thing, and lines that a number cannot say."""

    title: str
    figures: tuple[Figure, ...]
    notes: tuple[str, ...] = ()


def rate_held(client_lr: float, limit: float) -> tuple[float, str]:
    """The rate to evaluate a bound at, and how to name it: beyond its condition a bound claims nothing."""
    if client_lr <= limit:
        return client_lr, ""
    return limit, f" at client_lr {limit:.3g}"
