"""How a quantity differs from device to device: a number for all, one per client, or a distribution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from fedpace.errors import require

Values = npt.NDArray[np.float64]


@runtime_checkable
class Distribution(Protocol):
    """Draws one value per client, once per run."""

    def draw(self, clients: int, rng: np.random.Generator) -> Values: ...


@dataclass(frozen=True, slots=True)
class Between:
    """Uniform on [low, high]."""

    low: float
    high: float

    def __post_init__(self) -> None:
        require(0 <= self.low <= self.high, "Between(low, high)", (self.low, self.high), "0 <= low <= high")

    def draw(self, clients: int, rng: np.random.Generator) -> Values:
        return rng.uniform(self.low, self.high, clients)


@dataclass(frozen=True, slots=True)
class Inverse:
    """`numerator` / u with u uniform on [low, high]: the time of a device whose speed is uniform."""

    numerator: float
    low: float
    high: float

    def __post_init__(self) -> None:
        require(0 < self.low <= self.high, "Inverse(low, high)", (self.low, self.high), "0 < low <= high")

    def draw(self, clients: int, rng: np.random.Generator) -> Values:
        return self.numerator / rng.uniform(self.low, self.high, clients)


@dataclass(frozen=True, slots=True)
class ForModel:
    """Seconds per local step, measured with one model; those of another are in proportion to its own cost.

    The cost of a model is its number of multiply-accumulates for one sample.
    """

    seconds: Distribution
    multiply_accumulates: int  # of the model it was measured with
    model: str  # and its name
    used: int | None = (
        None  # multiply-accumulates of the model in use; None: they are not known, or not asked for yet
    )

    @property
    def factor(self) -> float:
        return 1.0 if self.used is None else self.used / self.multiply_accumulates

    def draw(self, clients: int, rng: np.random.Generator) -> Values:
        return self.seconds.draw(clients, rng) * self.factor

    def __str__(self) -> str:
        if self.factor == 1.0:
            return f"as {self.model}"
        share = f"{self.used:,} of {self.multiply_accumulates:,} multiply-accumulates"
        return f"{self.factor:.3g} times that of {self.model} ({share})"


DeviceQuantity = float | tuple[float, ...] | Distribution


def as_numbers(value: object) -> Values:
    """An array of the numbers given; NaN for what is none."""
    try:
        return np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        return np.array(np.nan)


def quantity(value: float | Sequence[float] | Distribution, what: str) -> DeviceQuantity:
    """A checked quantity: numbers are >= 0 and finite."""
    if isinstance(value, Distribution):
        return value
    numbers = as_numbers(value)
    require(
        bool(np.isfinite(numbers).all() and (numbers >= 0).all()), what, value, ">= 0 seconds, and finite"
    )
    return float(numbers) if numbers.ndim == 0 else tuple(numbers.tolist())


def per_client(value: Any, clients: int, rng: np.random.Generator, what: str) -> Values:
    """One value per client; a single number is not copied."""
    if isinstance(value, tuple):
        require(
            len(value) == clients, what, f"{len(value)} values", f"one value for each of {clients} clients"
        )
        return np.asarray(value, dtype=float)
    if isinstance(value, int | float):
        return np.broadcast_to(np.float64(value), clients)
    drawn: Values = value.draw(clients, rng)
    return drawn
