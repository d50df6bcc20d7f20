"""How much an old update counts: s(tau), tau being its age in server steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fedpace.errors import ConfigError, require, require_number


@dataclass(frozen=True, slots=True)
class Constant:
    """s = 1 for every staleness."""

    def __call__(self, tau: int) -> float:
        return 1.0


@dataclass(frozen=True, slots=True)
class Polynomial:
    """s = (1 + tau)^-a. Xie et al. 2019 (FedAsync), Nguyen et al. 2022 (FedBuff, a = 1/2)."""

    a: float = 0.5

    def __post_init__(self) -> None:
        require_number(self.a, "Polynomial.a", low=0, allowed=">= 0")

    def __call__(self, tau: int) -> float:
        return float((1 + tau) ** -self.a)


@dataclass(frozen=True, slots=True)
class Hinge:
    """s = 1 up to age b, then 1 / (a (tau - b) + 1). Xie et al. 2019."""

    a: float = 10.0
    b: float = 4.0

    def __post_init__(self) -> None:
        require_number(self.a, "Hinge.a", above=0, allowed="> 0")
        require_number(self.b, "Hinge.b", low=0, allowed=">= 0")

    def __call__(self, tau: int) -> float:
        return 1.0 if tau <= self.b else 1.0 / (self.a * (tau - self.b) + 1.0)


Weight = Callable[[int], float]
_BY_NAME: dict[Any, Callable[..., Constant | Polynomial | Hinge]] = {
    "none": Constant,
    "constant": Constant,
    "poly": Polynomial,
    "polynomial": Polynomial,
    "hinge": Hinge,
}


def staleness_weight(rule: object) -> Weight | None:
    """A weight from `"none"`, `"poly"`, `"poly:0.3"`, `"hinge:10:4"`, `("poly", 0.3)`, or a function of the age."""
    if rule is None or callable(rule):
        return rule
    allowed = "none, poly[:a], hinge[:a[:b]] or a function of the age"
    name, *numbers = (
        rule.split(":")
        if isinstance(rule, str)
        else [*rule]
        if isinstance(rule, list | tuple) and rule
        else [rule]
    )
    require(isinstance(name, str) and name in _BY_NAME, "staleness", rule, allowed)
    try:
        weight = _BY_NAME[name](*map(float, numbers))
    except (TypeError, ValueError):
        raise ConfigError(f"staleness must be {allowed}; got {rule!r}") from None
    return None if isinstance(weight, Constant) else weight


def discount(weight: Weight | str | None, tau: int) -> float:
    """s(tau) of a rule's checked weight; 1 where it has none."""
    return weight(tau) if callable(weight) else 1.0
