"""Accuracy at a budget, and what a target costs: bytes up, bytes both ways, seconds on a slow link."""

from __future__ import annotations

import statistics
from collections.abc import Callable

from fedpace.reproduce.comparison import Measure, above, cheaper
from fedpace.reproduce.experiment import OWN, Finding, not_run
from fedpace.reproduce.outcome import Evaluation, Outcome
from fedpace.reproduce.results import Results
from fedpace.reproduce.two_way_cells import BASELINES, LAST, DataSplit, where
from fedpace.reproduce.two_way_tuned import missing, ran

Cost = Callable[[Evaluation], float]

COSTS: dict[str, Cost] = {
    "both ways": lambda point: float(point.bytes),
    "up": lambda point: float(point.bytes_up),
}
TARGETS = {"iid": 0.8, "non-iid": 0.65}  # Fashion-MNIST, stated before the runs
TRAINING_S, LINK_BYTES_S = 1.0, 125_000.0  # of one round, and of a link of 1 Mbit/s


def budget_of(results: Results, name: str, cost: Cost) -> float:
    """What a cell spends in a run, on average."""
    return statistics.fmean(cost(outcome.points[-1]) for outcome in results.of(name))


def at_budget(budget: float, cost: Cost) -> Measure:
    """Accuracy in percent, the mean of the last evaluations before so much was spent."""

    def measure(outcome: Outcome) -> float | None:
        within = [p.metrics["accuracy"] for p in outcome.points if cost(p) <= 1.0001 * budget]
        return 100 * statistics.fmean(within[-LAST:]) if within else None

    return measure


def seconds_on_a_link(clients: int) -> Cost:
    """Rounds of local training, and the transfers of one client of each, the links of all working at once."""
    return lambda point: point.version * TRAINING_S + point.bytes / clients / LINK_BYTES_S


def to_target(results: Results, place: DataSplit, method: str, side: str, figures: str) -> Finding:
    target = TARGETS[place.split]
    claim = (
        f"{method} needs fewer bytes {side} to {target:.0%} than FedAvg, FedAdam and FedAMS ({where(place)})"
    )
    if missing(results, place, method, *BASELINES):
        return not_run(claim, figures)
    ours, *others = (ran(results, place, m) for m in (method, *BASELINES))
    cost = COSTS[side]
    spent = {name: results.to_target(name, target, lambda p: cost(p) / 1e6) for name in (ours, *others)}
    text = ", ".join(
        f"{m} {spread:.1f} MB" for m, spread in zip((method, *BASELINES), spent.values(), strict=True)
    )
    fewer = tuple(cheaper(results, ours, other, target, cost) for other in others)
    return Finding(claim, figures, text, comparisons=fewer, family=f"{figures}, {where(place)}")


def at_equal_seconds(results: Results, place: DataSplit, method: str, clients: int) -> Finding:
    claim = f"{method} is more accurate than FedAvg, FedAdam and FedAMS at equal seconds on 1 Mbit/s ({where(place)})"
    if missing(results, place, method, *BASELINES):
        return not_run(claim, OWN)
    ours, *others = (ran(results, place, m) for m in (method, *BASELINES))
    cost = seconds_on_a_link(clients)
    budget = budget_of(results, ours, cost)
    measure = at_budget(budget, cost)
    ends = [results.spread(name, measure) for name in (ours, *others)]
    shown = ", ".join(f"{m} {value:.1f} %" for m, value in zip((method, *BASELINES), ends, strict=True))
    note = f"a round of local training takes {TRAINING_S:g} s; transfers by their bytes."
    better = tuple(above(results, ours, other, measure) for other in others)
    text = f"after {budget:.0f} s: {shown}"
    return Finding(claim, OWN, text, note=note, comparisons=better, family=f"seconds, {where(place)}")
