"""The constants that the theorems assume, and the quantities that they state."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedpace.errors import require, require_count, require_number

# how far a quantity can be trusted
EXACT = "exact"
SUFFICIENT = "sufficient condition"
UPPER = "upper bound"
ORDER = "order of magnitude"
STABILITY = "mean stability"  # exact for the mean model of a quadratic
MEASURED = "measured"
ASSUMED = "assumed"
ADVICE = "recommended"


@dataclass(frozen=True, slots=True)
class Setting:
    """The constants of the five papers under one set of names; each theorem uses some of them."""

    smoothness: float  # L
    clients: int  # N
    steps: float  # K, or the largest K_i where they differ
    per_round: int | None = None  # M (n, q): updates per server step; None: all clients
    noise: float = 1.0  # σ² (σ_l²), variance of a stochastic gradient
    spread: float = 1.0  # σ_g², (1/N) Σ ||∇F_i − ∇f||²; κ² of FedNova with β² = 1
    gap: float = 1.0  # F_0 = f(x_0) − f*
    gradient: float = 1.0  # G², largest E||∇F_i||² of a client (DeFedAvg-nIID, adaptive servers)
    widest: float | None = None  # ν², largest ||∇F_i − ∇F||² of a client (DeFedAvg-nIID); None: spread
    radius: float = 1.0  # H, largest norm of the model (two-way compression)
    size: int = 1  # d, parameters of the model (adaptive servers)

    def __post_init__(self) -> None:
        require_number(self.smoothness, "smoothness", above=0, below=math.inf, allowed="> 0")
        require_count(self.clients, "clients")
        require_count(self.size, "size")
        require_number(self.steps, "steps", low=1, below=math.inf, allowed=">= 1")
        allowed = f"between 1 and the {self.clients} clients"
        require(1 <= self.m <= self.clients, "clients per round", self.per_round, allowed)
        for name in ("noise", "spread", "gap", "gradient", "radius"):
            require_number(getattr(self, name), name, low=0, below=math.inf, allowed=">= 0")

    @property
    def m(self) -> int:
        return self.clients if self.per_round is None else self.per_round

    @property
    def sampled(self) -> bool:
        return self.m < self.clients

    @property
    def left_out(self) -> float:
        """(N − M) / (M (N − 1)): what sampling M of N without replacement adds; 0 for full participation."""
        return (self.clients - self.m) / (self.m * (self.clients - 1)) if self.clients > 1 else 0.0

    @property
    def widest_spread(self) -> float:
        return self.spread if self.widest is None else self.widest


@dataclass(frozen=True, slots=True)
class StatedQuantity:
    """One number with its name, its label (one of the words above) and its source."""

    name: str
    value: float
    label: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """Quantities about one subject, and notes on them."""

    title: str
    quantities: tuple[StatedQuantity, ...]
    notes: tuple[str, ...] = ()


def rate_held(client_lr: float, limit: float) -> tuple[float, str]:
    """The rate to evaluate a bound at, and how to name it: beyond its condition a bound claims nothing."""
    if client_lr <= limit:
        return client_lr, ""
    return limit, f" at client_lr {limit:.3g}"
