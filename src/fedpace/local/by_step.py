"""Client learning rates that change with the server's steps."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from hashlib import sha256
from types import FunctionType
from typing import Any, Protocol

from fedpace.errors import require, require_count, require_number
from fedpace.local.sgd import SGD


class RateByStep(Protocol):
    """A schedule: what the learning rate is multiplied by in sessions that begin at server step t."""

    def factor(self, t: int) -> float:
        """c_t > 0."""
        ...


@dataclass(frozen=True, slots=True)
class StepDecay:
    """c_t = by^⌊t / every⌋: the rate is multiplied by `by` after every so many server steps."""

    every: int
    by: float = 0.1

    def __post_init__(self) -> None:
        require_count(self.every, "StepDecay.every")
        require_number(self.by, "StepDecay.by", above=0, below=math.inf, allowed="> 0")

    def factor(self, t: int) -> float:
        return float(self.by ** (t // self.every))


@dataclass(frozen=True, slots=True)
class Cosine:
    """c_t = e + (1 − e) (1 + cos(π t / T)) / 2 for t < T = `steps`, then e = `end`."""

    steps: int
    end: float = 0.01

    def __post_init__(self) -> None:
        require_count(self.steps, "Cosine.steps")
        require_number(self.end, "Cosine.end", above=0, high=1, allowed="in (0, 1]")

    def factor(self, t: int) -> float:
        return self.end + (1 - self.end) * (1 + math.cos(math.pi * min(t, self.steps) / self.steps)) / 2


@dataclass(frozen=True, slots=True)
class Warmup:
    """c_t = (t + 1) / T for t < T = `steps`, then 1, or what `then` says of t − T."""

    steps: int
    then: StepDecay | Cosine | None = None

    def __post_init__(self) -> None:
        require_count(self.steps, "Warmup.steps")

    def factor(self, t: int) -> float:
        if t < self.steps:
            return (t + 1) / self.steps
        return 1.0 if self.then is None else self.then.factor(t - self.steps)


@dataclass(frozen=True, slots=True, repr=False)
class ByFunction:
    """c_t by a plain function of t. Its text names the function and its code, and cannot be read back."""

    function: FunctionType

    def factor(self, t: int) -> float:
        value = self.function(t)
        require_number(value, f"{self.function.__name__}({t})", above=0, below=math.inf, allowed="> 0")
        return float(value)

    def __repr__(self) -> str:
        code = self.function.__code__
        digest = sha256(f"{code.co_code.hex()} {code.co_consts!r} {code.co_names}".encode()).hexdigest()
        return f"<function {self.function.__name__}, code {digest[:16]}>"


@dataclass(frozen=True, slots=True)
class ScheduledSGD(SGD):
    """`SGD` whose learning rate follows the server's steps: η c_t in a session that begins at server step t.

    `by_step` is `StepDecay`, `Cosine`, `Warmup`, a rule of your own with `factor(t)`, or in Python a plain function of
    t, which no experiment file can hold. Within a session
    `schedule` goes on top. Departures: not with a proximal term, whose gradient weights a_i would change with the rate.
    """

    by_step: Any = None

    def __post_init__(self) -> None:
        SGD.__post_init__(self)
        if isinstance(self.by_step, FunctionType):
            object.__setattr__(self, "by_step", ByFunction(self.by_step))
        allowed = "a rule such as Cosine(100), or a function of the server step"
        require(hasattr(self.by_step, "factor"), "ScheduledSGD.by_step", self.by_step, allowed)
        require(self.prox_mu == 0, "ScheduledSGD.prox_mu", self.prox_mu, "0: a_i would change with the rate")

    def at(self, t: int) -> SGD:
        """The rule of a session that begins at server step t."""
        same = {each.name: getattr(self, each.name) for each in fields(SGD)}
        return SGD(**{**same, "lr": self.lr * self.by_step.factor(t)})


def at_step(local: Any, t: int) -> Any:
    """A local rule as it is in a session that begins at server step t."""
    at = getattr(local, "at", None)
    return local if at is None else at(t)
