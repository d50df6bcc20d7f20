"""Bytes until an accuracy is reached: the paper's methods against uncompressed ones of every length of run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from fedpace.reproduce.comparison import Comparison, cheaper
from fedpace.reproduce.experiment import Finding, not_run
from fedpace.reproduce.outcome import Outcome
from fedpace.reproduce.results import Results, SeedSpread
from fedpace.reproduce.two_way.budgets import COSTS, Cost, budget_of, megabytes
from fedpace.reproduce.two_way.cells import BASELINES, DataSplit, where
from fedpace.reproduce.two_way.firing import with_its_rule
from fedpace.reproduce.two_way.tuned import FIGURES, missing, ran, short, short_lengths

# Fashion-MNIST's were stated before the runs; MNIST's when there were runs, before bytes to them were looked at
TARGETS: Mapping[str, Mapping[str, float]] = {
    "Fashion-MNIST": {"iid": 0.8, "non-iid": 0.65},
    "MNIST": {"iid": 0.9, "non-iid": 0.8},
}
NOTE = "A rival is compared at its settings for every length of run; its best is shown."

Settings = Mapping[str, Mapping[str, str]]  # method -> label of a setting -> cell


def to_target(results: Results, place: DataSplit, method: str, figures: str) -> Finding:
    target = TARGETS[place.data][place.split]
    claim = (
        f"{method} needs fewer bytes, up and both ways, to {target:.0%} than FedAvg, FedAdam and FedAMS "
        f"({where(place)})"
    )
    if missing(results, place, method, *BASELINES):
        return not_run(claim, figures)
    own = ran(results, place, method, *BASELINES)[method]
    fewer, shown = [], []
    for side, cost in COSTS.items():
        goal = Goal(results, own, target, cost)
        rivals = _distinct(goal, _rivals(results, place, method, target))
        shown.append(f"{side}: {_shown(goal, method, rivals)} MB")
        fewer += _fewer(goal, rivals, side, method)
    text = "; ".join(shown)
    found = Finding(claim, figures, text, note=NOTE, comparisons=tuple(fewer), family=FIGURES[place])
    return with_its_rule(results, own, method, found)


class Goal(NamedTuple):
    """An accuracy that a method and its rivals are to reach, and what is counted until then."""

    results: Results
    own: str  # the method's cell
    target: float
    cost: Cost

    def spent(self, rival: str) -> tuple[SeedSpread, SeedSpread]:
        """Megabytes of the method and of a rival, read as their comparison reads them."""
        alike = read_alike(self.results, self.own, rival, self.cost)
        own, other = (alike.to_target(name, self.target, megabytes(self.cost)) for name in (self.own, rival))
        return own, other

    def before(self, rival: str, what: str) -> Comparison:
        alike = read_alike(self.results, self.own, rival, self.cost)
        return cheaper(alike, self.own, rival, self.target, self.cost, what)


def _rivals(results: Results, place: DataSplit, method: str, target: float) -> Settings:
    """Every cell of a rival; of the short ones those of which any run gets to the target."""
    usual = ran(results, place, method, *BASELINES)
    return {
        m: {m: usual[m]}
        | {
            f"{m} in {rounds} rounds": short(place, m, rounds)
            for rounds in short_lengths(place, m)
            if results.to_target(short(place, m, rounds), target, COSTS["up"]).values
        }
        for m in BASELINES
    }


def read_alike(results: Results, one: str, other: str, cost: Cost) -> Results:
    """Two cells with evaluations about as many bytes apart: the one that is evaluated more often is left fewer.

    With all of them it would appear to reach the target sooner.
    """
    apart = {name: budget_of(results, name, cost) / len(results.of(name)[0].points) for name in (one, other)}
    thinned = {
        name: _every(max(1, round(max(apart.values()) / own)), results.outcomes[name])
        for name, own in apart.items()
    }
    return replace(results, outcomes={**results.outcomes, **thinned})


def _every(kth: int, runs: Mapping[int, Outcome]) -> dict[int, Outcome]:
    """Every k-th evaluation, and the last."""
    return {
        seed: replace(run, points=[*run.points[:-1][kth - 1 :: kth], *run.points[-1:]])
        for seed, run in runs.items()
    }


def _distinct(goal: Goal, rivals: Settings) -> Settings:
    """A setting that was chosen for several lengths counts once, by the cell that gets there most often and first."""
    cells = goal.results.cells

    def rank(name: str) -> tuple[int, float]:
        _, spent = goal.spent(name)
        return spent.missed, spent.mean

    found: dict[str, dict[str, str]] = {}
    for method, tried in rivals.items():
        kept = found.setdefault(method, {})
        for label, name in sorted(tried.items(), key=lambda each: rank(each[1])):
            if all(cells[other].algorithm != cells[name].algorithm for other in kept.values()):
                kept[label] = name
    return found


def _shown(goal: Goal, method: str, rivals: Settings) -> str:
    """Rivals by their best settings, after the method as it is read beside them."""
    beside: dict[str, list[str]] = {}
    for rival, cells in rivals.items():
        own, other = goal.spent(next(iter(cells.values())))
        beside.setdefault(f"{method} {own:.1f}", []).append(f"{rival} {other:.1f}")
    return " and ".join(", ".join([own, *others]) for own, others in beside.items())


def _fewer(goal: Goal, rivals: Settings, side: str, method: str) -> list[Comparison]:
    return [
        goal.before(name, f"{method} before {label}, bytes {side}")
        for cells in rivals.values()
        for label, name in cells.items()
    ]
