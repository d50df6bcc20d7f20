"""Local rates that fall with the rounds, as in the paper's experiments."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from fedpace.algorithm import Algorithm
from fedpace.local import SGD, ScheduledSGD


@dataclass(frozen=True, slots=True)
class AtHalfAndThreeQuarters:
    """c_t = 1, by, by² in the first half of the rounds, the third quarter and the last.

    Wang et al., section 6: "decayed by a constant factor after finishing 50% and 75% of the communication rounds". The
    factor is not in the text; a tenth, as in the authors' public code (for CIFAR-10).
    """

    rounds: int
    by: float = 0.1

    def factor(self, t: int) -> float:
        return float(self.by ** ((2 * t >= self.rounds) + (4 * t >= 3 * self.rounds)))


@dataclass(frozen=True, slots=True)
class DecayedProximal(ScheduledSGD):
    """`ScheduledSGD` with a proximal term: α = η c_t μ falls with the rate, and a_i changes.

    For aggregation by samples, which does not look at a_i: what clients report of it belongs to the first rate.
    """

    def __post_init__(self) -> None:
        SGD.__post_init__(self)


def decayed(algorithm: Algorithm, rounds: int) -> Algorithm:
    """The algorithm with this schedule of its local rate."""
    local: SGD = algorithm.local
    same: dict[str, Any] = {each.name: getattr(local, each.name) for each in fields(SGD)}
    rule = DecayedProximal if local.prox_mu else ScheduledSGD
    return replace(algorithm, local=rule(**same, by_step=AtHalfAndThreeQuarters(rounds)))
