"""Accuracy at a budget, and what a target costs: bytes up, bytes both ways, seconds on a slow link."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from fedpace.reproduce.comparison import Measure, above, cheaper
from fedpace.reproduce.experiment import OWN, ClaimSource, Finding, not_run, not_tested
from fedpace.reproduce.outcome import Evaluation, Outcome
from fedpace.reproduce.results import Results
from fedpace.reproduce.two_way.cells import BASELINES, DataSplit, where
from fedpace.reproduce.two_way.tuned import FIGURES, brief, lengths, missing, ran, tuned

Cost = Callable[[Evaluation], float]

COSTS: dict[str, Cost] = {
    "both ways": lambda point: float(point.bytes),
    "up": lambda point: float(point.bytes_up),
}
# methods without their rule
SAME = {"FedNLAA": "FedAMS", "FedACA 1/8": "FedCAMS"}
SILENT = SAME | {"FedBACA 1/8": "compression with error feedback both ways, without AA,"}
RARELY = 0.01  # of the uploads: a rule that fires less often was not tested
TARGETS = {"iid": 0.8, "non-iid": 0.65}  # Fashion-MNIST, stated before the runs
TRAINING_S, LINK_BYTES_S = 1.0, 125_000.0  # of one round, and of a link of 1 Mbit/s


def budget_of(results: Results, name: str, cost: Cost) -> float:
    """What a cell spends in a run, on average."""
    return statistics.fmean(cost(outcome.points[-1]) for outcome in results.of(name))


def at_budget(budget: float, cost: Cost) -> Measure:
    """Accuracy in percent when so much was spent: on the line between the evaluations before and after.

    The mean of evaluations before it would leave a method that spends much per round with its first ones.
    """

    def measure(outcome: Outcome) -> float | None:
        spent = [cost(point) for point in outcome.points]
        if not spent or budget < spent[0]:
            return None
        return 100 * float(np.interp(budget, spent, [p.metrics["accuracy"] for p in outcome.points]))

    return measure


class Rivals(NamedTuple):
    """The cells that others are compared with, by method, and the length of run they were tuned for."""

    names: Mapping[str, str]
    rounds: int | None = None  # the usual one

    def __str__(self) -> str:
        return f", rivals tuned for {self.rounds} rounds" if self.rounds else ""


def rivals_at(
    results: Results,
    place: DataSplit,
    method: str,
    budget: float,
    cost: Cost,
    rivals: Sequence[str] = BASELINES,
) -> Rivals:
    """The rivals tuned for about this budget: for the shortest runs that spend it, all of them or none."""
    usual = ran(results, place, method, *rivals)
    usually = Rivals({m: usual[m] for m in rivals})
    if usual[method] != tuned(place, method):
        return usually
    shorter = (
        Rivals({m: brief(place, m, rounds) for m in rivals}, rounds) for rounds in lengths(place, rivals[0])
    )
    enough = (
        short
        for short in shorter
        if results.have(*short.names.values())
        and all(budget <= budget_of(results, name, cost) for name in short.names.values())
    )
    return next(enough, usually)


def seconds_on_a_link(clients: int) -> Cost:
    """Rounds of local training, and the transfers of one client of each, the links of all working at once."""
    return lambda point: point.version * TRAINING_S + point.bytes / clients / LINK_BYTES_S


def fired(outcome: Outcome) -> float:
    """How often the lazy rule of the uplink acted, as a share of the uploads."""
    return outcome.traffic["up"].get("firing_rate", 0.0)


def rarely_fired(results: Results, name: str) -> bool:
    return results.spread(name, fired).mean < RARELY


def how_often(results: Results, name: str) -> str:
    return f"its rule fired in {results.spread(name, fired).mean:.1%} of uploads"


def by_bytes(results: Results, place: DataSplit, method: str, figures: str) -> list[Finding]:
    """At the budget of bytes up and at that of both ways: one claim, since rivals often are as accurate at both."""
    claim = (
        f"{method} is more accurate than FedAvg, FedAdam and FedAMS at equal bytes, up and both ways "
        f"({where(place)})"
    )
    if missing(results, place, method, *BASELINES):
        return [not_run(claim, figures)]
    own = ran(results, place, method, *BASELINES)[method]
    better, shown = [], []
    for side, cost in COSTS.items():
        budget = budget_of(results, own, cost)
        measure = at_budget(budget, cost)
        rivals = rivals_at(results, place, method, budget, cost)
        names = {method: own, **rivals.names}
        ends = ", ".join(f"{m} {results.spread(name, measure):.1f} %" for m, name in names.items())
        shown.append(f"after {budget / 1e6:.1f} MB {side}{rivals}: {ends}")
        better += [
            above(results, names[method], names[m], measure, f"{method} above {m}, bytes {side}")
            for m in BASELINES
        ]
    found = Finding(claim, figures, "; ".join(shown), comparisons=tuple(better), family=FIGURES[place])
    return _with_its_rule(results, own, method, found)


def to_target(results: Results, place: DataSplit, method: str, figures: str) -> list[Finding]:
    target = TARGETS[place.split]
    claim = (
        f"{method} needs fewer bytes, up and both ways, to {target:.0%} than FedAvg, FedAdam and FedAMS "
        f"({where(place)})"
    )
    if missing(results, place, method, *BASELINES):
        return [not_run(claim, figures)]
    names = ran(results, place, method, *BASELINES) | {
        f"{m} in {rounds} rounds": brief(place, m, rounds)
        for m in BASELINES
        for rounds in lengths(place, m)
        if results.to_target(brief(place, m, rounds), target, COSTS["up"]).values
    }
    fewer, shown = [], []
    for side, cost in COSTS.items():
        spent = {m: results.to_target(name, target, megabytes(cost)) for m, name in names.items()}
        shown.append(f"{side}: " + ", ".join(f"{m} {spread:.1f} MB" for m, spread in spent.items()))
        fewer += [
            cheaper(results, names[method], name, target, cost, f"{method} before {m}, bytes {side}")
            for m, name in names.items()
            if m != method
        ]
    found = Finding(claim, figures, "; ".join(shown), comparisons=tuple(fewer), family=FIGURES[place])
    return _with_its_rule(results, names[method], method, found)


def _with_its_rule(results: Results, name: str, method: str, found: Finding) -> list[Finding]:
    """The paper's claim where its rule fired; else untested, and of FedBACA what is left of it as a claim of ours."""
    often = how_often(results, name)
    if not rarely_fired(results, name):
        return [replace(found, note=f"{often}.")]
    untested = not_tested(found.claim, found.published, found.ours, f"{often}: it is {SILENT[method]} here.")
    if method in SAME:
        return [untested]
    claim = found.claim.replace(method, f"{method} without AA", 1)
    note = "compression with error feedback both ways."
    own = replace(found, claim=claim, published=OWN, note=note, source=ClaimSource.OWN)
    return [untested, own]


def megabytes(cost: Cost) -> Cost:
    return lambda point: cost(point) / 1e6


def at_equal_seconds(results: Results, place: DataSplit, method: str, clients: int) -> Finding:
    claim = f"{method} is more accurate than FedAvg, FedAdam and FedAMS at equal seconds on 1 Mbit/s ({where(place)})"
    if missing(results, place, method, *BASELINES):
        return not_run(claim, OWN)
    own = ran(results, place, method, *BASELINES)[method]
    cost = seconds_on_a_link(clients)
    budget = budget_of(results, own, cost)
    measure = at_budget(budget, cost)
    rivals = rivals_at(results, place, method, budget, cost)
    names = {method: own, **rivals.names}
    ends = {m: results.spread(name, measure) for m, name in names.items()}
    told = f"a round of local training takes {TRAINING_S:g} s; transfers by their bytes."
    note = f"{told} FedBACA: {how_often(results, names[method])}."
    better = tuple(above(results, names[method], names[m], measure) for m in BASELINES)
    text = f"after {budget:.0f} s{rivals}: " + ", ".join(f"{m} {value:.1f} %" for m, value in ends.items())
    return Finding(claim, OWN, text, note=note, comparisons=better, family=f"seconds, {where(place)}")
