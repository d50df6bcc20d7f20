"""Local SGD and its number of local steps, as one frozen value."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from fedpace.errors import ConfigError, require, require_count, require_number
from fedpace.local import weights
from fedpace.vector import Vector, settle

Steps = int | tuple[int, ...] | tuple[tuple[int, ...], ...]

MAX_STEPS = 10_000_000  # of a session, whose batches are drawn ahead: some hundred megabytes


@dataclass(frozen=True, slots=True)
class SGD:
    """Stochastic gradient descent on F_i: plain, proximal, with (Nesterov) momentum, or all at once.

    From y = x (the model received) and r = 0, for k = 0 .. K-1:

        g = clip(∇F_i(y; batch)) + λ y                       clip, weight_decay
        r = ρ r + g                                          momentum
        d = g + ρ r  if nesterov  else  r
        y = y − η c_k (d + μ (y − x))                        lr, schedule, prox_mu

    A correction (SCAFFOLD, FedNova-VR) is added to g. McMahan et al., arXiv:1602.05629, Algorithm 1; the
    proximal term is FedProx, Li et al., arXiv:1812.06127; the weights a_i are those of Wang et al.,
    arXiv:2007.07481, App. B.
    Sign: a client sends delta = y − x = −η Σ_k a_k g_k, which the server adds.
    Departures: the proximal pull stays outside the momentum buffer, so that a_i has a closed form; Nesterov
    is torch's form. Clipping bounds ||g|| of one batch before weight decay; a_i weighs the clipped gradients.

    Work is exactly one of
      `steps`    a number, one per client `[1, 3, 7]`, or one such list per round `[[1, 2], [2, 1]]`
      `epochs`   a number, or `(low, high)`: drawn uniformly, both ends included, for every client and session
      `seconds`  as many steps as fit into this time on the virtual clock, at least one

    `batch_size` None is the full batch. `schedule` holds c_0, c_1, ...; its last entry is used from then on.
    """

    lr: float
    steps: Steps | None = None
    epochs: int | tuple[int, int] | None = None
    batch_size: int | None = None
    momentum: float = 0.0
    nesterov: bool = False
    prox_mu: float = 0.0
    weight_decay: float = 0.0
    clip: float | None = None
    schedule: tuple[float, ...] | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        settle(self)
        self._check_work()
        self._check_rule()

    def _check_work(self) -> None:
        given = [name for name in ("steps", "epochs", "seconds") if getattr(self, name) is not None]
        require(len(given) == 1, "SGD", given, "given exactly one of steps, epochs and seconds")
        if self.steps is not None:
            _check_steps(self.steps)
        if self.epochs is not None:
            _check_epochs(self.epochs)
        if self.seconds is not None:
            require_number(self.seconds, "SGD.seconds", above=0, below=math.inf, allowed="> 0")
        if self.batch_size is not None:
            require_count(self.batch_size, "SGD.batch_size")

    def _check_rule(self) -> None:
        require_number(self.lr, "SGD.lr", above=0, below=math.inf, allowed="> 0")
        require_number(self.momentum, "SGD.momentum", low=0, below=1, allowed="in [0, 1)")
        require_number(self.prox_mu, "SGD.prox_mu", low=0, below=math.inf, allowed=">= 0")
        require_number(self.weight_decay, "SGD.weight_decay", low=0, below=math.inf, allowed=">= 0")
        require(isinstance(self.nesterov, bool), "SGD.nesterov", self.nesterov, "True or False")
        require(self.momentum > 0 or not self.nesterov, "SGD.nesterov", True, "False when momentum is 0")
        if self.clip is not None:
            require_number(self.clip, "SGD.clip", above=0, below=math.inf, allowed="> 0, or None")
        if self.schedule is not None:
            _check_schedule(self.schedule)
        alpha = self.lr * self.prox_mu * max(self.schedule or (1.0,))
        require(
            alpha < 1,
            "SGD.lr * SGD.prox_mu",
            alpha,
            "< 1 (the pull to the received model would overshoot it; lower prox_mu or lr)",
        )

    def work(
        self, client: int, round: int, samples: float, seconds_per_step: float, rng: np.random.Generator
    ) -> int:
        """K_i: how many local steps this session takes."""
        if isinstance(self.steps, int):
            return self.steps
        if self.steps is not None:
            return _scripted(self.steps, client, round)
        if self.epochs is not None:
            return _possible(_passes(self.epochs, rng) * self.batches(samples))
        return _possible(_fitting(self.seconds or 0.0, seconds_per_step))

    def max_work(self, samples: float) -> int | None:
        """The largest number of steps that a session of any client in any round can take; None where time decides."""
        if self.steps is not None:
            rows = self.steps if isinstance(self.steps, tuple) else (self.steps,)
            return max(max(row) if isinstance(row, tuple) else row for row in rows)
        if self.epochs is not None:
            passes = self.epochs[1] if isinstance(self.epochs, tuple) else self.epochs
            return passes * self.batches(samples)
        return None

    def outcomes(self, client: int, samples: float) -> tuple[int, ...] | None:
        """The step counts a session may have, all equally likely (scripted ones: as often as they come up).

        None where the clock decides, or where `steps` has no entry for the client.
        """
        if self.epochs is not None:
            low, high = self.epochs if isinstance(self.epochs, tuple) else (self.epochs, self.epochs)
            return tuple(passes * self.batches(samples) for passes in range(low, high + 1))
        if self.steps is None:
            return None
        try:
            return tuple(_scripted(self.steps, client, round) for round in range(_rounds(self.steps)))
        except ConfigError:
            return None

    @property
    def random_work(self) -> bool:
        """Whether `work` draws from its generator."""
        return isinstance(self.epochs, tuple)

    def batches(self, samples: float) -> int:
        """Steps that make one pass: the last batch may be partial."""
        return 1 if self.batch_size is None else max(1, math.ceil(samples / self.batch_size))

    def rate(self, k: int) -> float:
        """The learning rate of step k, η c_k."""
        return self.lr * self.factor(k)

    def factor(self, k: int) -> float:
        """c_k."""
        return 1.0 if self.schedule is None else self.schedule[min(k, len(self.schedule) - 1)]

    def a_vector(self, k: int) -> Vector:
        """a_i for K = k steps: how much each step's gradient weighs in delta = −η Σ a_j g_j."""
        return weights.vector(self._shape(k))

    def a_norm1(self, k: int) -> float:
        """||a_i||_1 for K = k steps."""
        return _norm1(self, k)

    def _shape(self, k: int) -> weights.SolverShape:
        require_count(k, "number of local steps")
        factors = None if self.schedule is None else tuple(self.factor(j) for j in range(k))
        return weights.SolverShape(int(k), self.momentum, self.nesterov, self.lr * self.prox_mu, factors)


@lru_cache(maxsize=4096, typed=True)  # a wrong type is still refused
def _norm1(rule: SGD, k: int) -> float:
    return weights.norm1(rule._shape(k))


def _check_steps(steps: Steps) -> None:
    require(steps != (), "SGD.steps", steps, "a number, one per client, or one list per round")
    rows = steps if isinstance(steps, tuple) else (steps,)
    nested = [isinstance(row, tuple) for row in rows]
    require(all(nested) or not any(nested), "SGD.steps", steps, "either all numbers or all lists")
    for row in rows:
        require(row != (), "SGD.steps", steps, "given for every client in every round")
        for entry in row if isinstance(row, tuple) else (row,):
            require_count(entry, "SGD.steps", high=MAX_STEPS)


def _check_epochs(epochs: int | tuple[int, ...]) -> None:
    bounds = epochs if isinstance(epochs, tuple) else (epochs, epochs)
    for bound in bounds:
        require_count(bound, "SGD.epochs", high=MAX_STEPS)
    require(
        len(bounds) == 2 and bounds[0] <= bounds[1],
        "SGD.epochs",
        epochs,
        "a number or (low, high) with low <= high",
    )


def _check_schedule(schedule: tuple[float, ...]) -> None:
    require(
        isinstance(schedule, tuple) and schedule != (), "SGD.schedule", schedule, "factors of lr, or None"
    )
    for factor in schedule:
        require_number(factor, "SGD.schedule", above=0, below=math.inf, allowed="factors > 0")


def _passes(epochs: int | tuple[int, int], rng: np.random.Generator) -> int:
    return int(rng.integers(*epochs, endpoint=True)) if isinstance(epochs, tuple) else epochs


def _fitting(budget_s: float, seconds_per_step: float) -> int:
    require_number(seconds_per_step, "seconds per step", above=0, allowed="> 0 for a time budget")
    # a billionth of a step of slack, so that 0.3 s hold three steps of 0.1 s
    return max(1, math.floor(budget_s / seconds_per_step + 1e-9))


def _possible(steps: int) -> int:
    require_count(steps, "local steps of a session", high=MAX_STEPS)
    return steps


def _rounds(steps: Steps) -> int:
    """How many rounds are scripted; 1 where all are alike."""
    return len(steps) if isinstance(steps, tuple) and isinstance(steps[0], tuple) else 1


def _scripted(steps: Steps, client: int, round: int) -> int:
    if not isinstance(steps, tuple):
        return steps
    if isinstance(steps[0], tuple):
        return _scripted(_entry(steps, round, "round"), client, round)
    return int(_entry(steps, client, "client"))


def _entry(steps: tuple[Any, ...], at: int, what: str) -> Any:
    if not 0 <= at < len(steps):
        raise ConfigError(f"SGD.steps must have an entry for {what} {at}; got {len(steps)} entries")
    return steps[at]
