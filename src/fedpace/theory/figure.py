"""A number of the theory, and how far it can be trusted."""

from __future__ import annotations

from dataclasses import dataclass

EXACT = "exact"
SUFFICIENT = "sufficient condition"
UPPER = "upper bound"
ORDER = "order of magnitude"


@dataclass(frozen=True, slots=True)
class Figure:
    """One number with its name, its standing (one of the four above) and where it comes from."""

    name: str
    value: float
    standing: str
    source: str = ""
