"""Bytes until an accuracy is reached: the paper's methods against uncompressed ones of every length of run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fedpace.reproduce.comparison import Comparison, cheaper
from fedpace.reproduce.experiment import Finding, not_run
from fedpace.reproduce.outcome import Evaluation, Outcome
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


def to_target(results: Results, place: DataSplit, method: str, figures: str) -> list[Finding]:
    target = TARGETS[place.data][place.split]
    claim = (
        f"{method} needs fewer bytes, up and both ways, to {target:.0%} than FedAvg, FedAdam and FedAMS "
        f"({where(place)})"
    )
    if missing(results, place, method, *BASELINES):
        return [not_run(claim, figures)]
    own = ran(results, place, method, *BASELINES)[method]
    fewer, shown = [], []
    for side, cost in COSTS.items():
        rivals = _rivals(results, place, method, target)
        alike = read_alike(results, own, rivals, cost)
        distinct = _distinct(alike, rivals, target, cost)
        shown.append(f"{side}: {_shown(alike, {method: {method: own}, **distinct}, target, cost)} MB")
        fewer += _fewer(alike, own, distinct, target, side, method)
    text = "; ".join(shown)
    found = Finding(claim, figures, text, note=NOTE, comparisons=tuple(fewer), family=FIGURES[place])
    return with_its_rule(results, own, method, found)


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


def read_alike(results: Results, own: str, rivals: Settings, cost: Cost) -> Results:
    """Rivals with evaluations about as many bytes apart as the method's.

    A method that is evaluated more often is seen to be there sooner.
    """
    apart = budget_of(results, own, cost) / len(results.of(own)[0].points)
    thinned = {
        name: _thinned(results, name, apart, cost) for cells in rivals.values() for name in cells.values()
    }
    return replace(results, outcomes={**results.outcomes, **thinned})


def _thinned(results: Results, name: str, apart: float, cost: Cost) -> dict[int, Outcome]:
    """At every k rounds, and at the end: k rounds send about so many bytes."""
    of_a_round = budget_of(results, name, cost) / results.of(name)[0].points[-1].version
    every = max(1, round(apart / of_a_round))
    return {seed: _read_every(every, outcome) for seed, outcome in results.outcomes[name].items()}


def _read_every(rounds: int, outcome: Outcome) -> Outcome:
    kept: list[Evaluation] = []
    for point in outcome.points:
        before = kept[-1].version if kept else 0
        if point.version >= before + rounds or point is outcome.points[-1]:
            kept.append(point)
    return replace(outcome, points=tuple(kept))


def _distinct(results: Results, rivals: Settings, target: float, cost: Cost) -> Settings:
    """A setting that was chosen for several lengths counts once, by the cell that gets there most often and first."""

    def rank(name: str) -> tuple[int, float]:
        spent = results.to_target(name, target, cost)
        return spent.missed, spent.mean

    found: dict[str, dict[str, str]] = {}
    for method, cells in rivals.items():
        kept = found.setdefault(method, {})
        for label, name in sorted(cells.items(), key=lambda each: rank(each[1])):
            rule = results.cells[name].algorithm
            if all(results.cells[other].algorithm != rule for other in kept.values()):
                kept[label] = name
    return found


def _shown(results: Results, every: Settings, target: float, cost: Cost) -> str:
    """Each method by its best setting."""
    best = {method: next(iter(cells.values())) for method, cells in every.items()}
    spent: dict[str, SeedSpread] = {
        method: results.to_target(name, target, megabytes(cost)) for method, name in best.items()
    }
    return ", ".join(f"{method} {spread:.1f}" for method, spread in spent.items())


def _fewer(
    results: Results, own: str, rivals: Settings, target: float, side: str, method: str
) -> list[Comparison]:
    return [
        cheaper(results, own, name, target, COSTS[side], f"{method} before {label}, bytes {side}")
        for cells in rivals.values()
        for label, name in cells.items()
    ]
