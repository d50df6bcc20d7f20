"""What was spent: the guarantee of one run, and of several on the same clients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from fedpace.errors import require
from fedpace.privacy.accounting import ADJACENCIES, Accounting, together
from fedpace.untrusted import Number, Whole, fits

COVERED = "the released models; history, counters and metrics of clients are the operator's, and not covered"
OPERATOR = "operator only"  # the mark of a history in tables
_SHAPE = {
    "epsilon": float,
    "delta": Number,
    "accountant": str,
    "adjacency": str,
    "noise_multiplier": Number,
    "clip": Number,
    "mechanism": str,
    "uses": Whole,
    "clients": Whole,
    "cohort": Whole,
    "tree_steps": Whole,
}


@dataclass(frozen=True, slots=True)
class Privacy:
    """The models a run released are (epsilon, delta) differentially private for neighbours of this adjacency."""

    epsilon: float
    delta: float
    accountant: str  # PLD | RDP
    adjacency: str  # add-or-remove | replace-one | zero-out
    noise_multiplier: float
    clip: float  # of the next step
    mechanism: str
    uses: int  # steps; contributions of the client with most of them where the adjacency is zero-out
    clients: int  # N
    cohort: int  # per step
    tree_steps: int = 0

    @property
    def accounting(self) -> Accounting:
        return Accounting(self.adjacency, self.noise_multiplier, self.clients, self.cohort, self.tree_steps)

    def plain(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Privacy:
        """What `plain` gave; anything beside it is left out."""
        return cls(**{each.name: plain[each.name] for each in fields(cls)})

    @classmethod
    def read(cls, plain: Any) -> Privacy:
        """What a file says was spent; ConfigError if no run could have spent it."""
        allowed = "one that Run.save writes"
        require(fits(plain, _SHAPE) and set(plain) == set(_SHAPE), "a privacy account", plain, allowed)
        spent = cls.of(plain)
        sound = (
            spent.adjacency in ADJACENCIES
            and spent.accountant == spent.accounting.accountant
            and spent.epsilon >= 0
            and 0 < spent.delta < 1
            and spent.noise_multiplier > 0
            and min(spent.uses, spent.tree_steps) >= 0
            and 1 <= spent.cohort <= spent.clients
        )
        require(sound, "a privacy account", plain, allowed)
        return spent

    def __str__(self) -> str:
        return f"({self.epsilon:.4g}, {self.delta:g})-DP, {self.adjacency}, {self.accountant}"


@dataclass(frozen=True, slots=True)
class Composed:
    """Several runs on the same clients, added up by their accountant."""

    epsilon: float
    delta: float
    adjacency: str
    runs: int

    def __str__(self) -> str:
        runs = "1 run" if self.runs == 1 else f"{self.runs} runs"
        return f"{runs} together: ({self.epsilon:.4g}, {self.delta:g})-DP, {self.adjacency}"


def composed(runs: Iterable[Privacy]) -> list[Composed]:
    """One for each adjacency: guarantees for different neighbours do not add up to one."""
    by_adjacency: dict[str, list[Privacy]] = {}
    for run in runs:
        by_adjacency.setdefault(run.adjacency, []).append(run)
    return [_together(adjacency, each) for adjacency, each in by_adjacency.items()]


def _together(adjacency: str, runs: list[Privacy]) -> Composed:
    delta, uses = max(run.delta for run in runs), dict[Accounting, int]()
    for run in runs:
        uses[run.accounting] = uses.get(run.accounting, 0) + run.uses
    spent = tuple((each, count) for each, count in uses.items() if count)
    return Composed(together(spent, delta) if spent else 0.0, delta, adjacency, len(runs))
