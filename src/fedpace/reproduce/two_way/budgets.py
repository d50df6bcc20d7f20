"""Accuracy at a budget: bytes up, bytes both ways, seconds on a slow link."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fedpace.reproduce.comparison import Comparison, Measure, above
from fedpace.reproduce.experiment import OWN, Finding, not_run
from fedpace.reproduce.outcome import Evaluation, Outcome
from fedpace.reproduce.results import Results
from fedpace.reproduce.two_way.cells import BASELINES, DataSplit, where
from fedpace.reproduce.two_way.firing import how_often, with_its_rule
from fedpace.reproduce.two_way.tuned import FIGURES, missing, ran, short, short_lengths, tuned

Cost = Callable[[Evaluation], float]

COSTS: dict[str, Cost] = {
    "both ways": lambda point: float(point.bytes),
    "up": lambda point: float(point.bytes_up),
}
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
    """The cells that others are compared with, by method, and the length of run that they were tuned for."""

    names: Mapping[str, str]
    rounds: int | None = None  # None: not tuned

    def __str__(self) -> str:
        return "rivals not tuned" if self.rounds is None else f"rivals tuned for {self.rounds} rounds"


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
    names = {m: usual[m] for m in rivals}
    if usual[method] != tuned(place, method):
        return Rivals(names)
    every = (
        Rivals({m: short(place, m, rounds) for m in rivals}, rounds)
        for rounds in short_lengths(place, rivals[0])
    )
    enough = (
        each
        for each in every
        if results.have(*each.names.values())
        and all(budget <= budget_of(results, name, cost) for name in each.names.values())
    )
    return next(enough, Rivals(names, results.cells[names[rivals[0]]].rounds))


class Spending(NamedTuple):
    """What a method spent in its run, and the rivals that it is compared with at that."""

    text: str
    own: Mapping[str, str]  # the method and its cell
    rivals: Rivals
    measure: Measure

    @classmethod
    def of(
        cls,
        results: Results,
        place: DataSplit,
        method: str,
        cost: Cost,
        text: str,
        rivals: Sequence[str] = BASELINES,
    ) -> Spending:
        """`text` is a format of the number spent."""
        own = ran(results, place, method, *rivals)[method]
        spent = budget_of(results, own, cost)
        found = rivals_at(results, place, method, spent, cost, rivals)
        return cls(text.format(spent), {method: own}, found, at_budget(spent, cost))

    def accuracies(self, results: Results) -> str:
        every = {**self.own, **self.rivals.names}
        return ", ".join(f"{m} {results.spread(name, self.measure):.1f}" for m, name in every.items()) + " %"

    def compared(self, results: Results, named: str = "") -> list[Comparison]:
        """The method above every rival."""
        return [
            above(results, own, name, self.measure, f"{m} above {rival}, {named}" if named else "")
            for m, own in self.own.items()
            for rival, name in self.rivals.names.items()
        ]


def told(results: Results, budgets: Sequence[Spending]) -> str:
    """Accuracies at the budgets; once, where they are the same at all of them."""
    ends = [budget.accuracies(results) for budget in budgets]
    lengths = [str(budget.rivals) for budget in budgets]
    if len(set(lengths)) > 1:
        parts = zip(budgets, lengths, ends, strict=True)
        return "; ".join(f"after {budget.text}, {length}: {end}" for budget, length, end in parts)
    if len(set(ends)) > 1:
        parts_at = "; ".join(f"after {b.text}: {end}" for b, end in zip(budgets, ends, strict=True))
        return f"{lengths[0]}; {parts_at}"
    return f"after {' or '.join(budget.text for budget in budgets)}, {lengths[0]}: {ends[0]}"


def bytes_budgets(results: Results, place: DataSplit, method: str) -> dict[str, Spending]:
    """The budget of bytes both ways and that of bytes up."""
    return {
        side: Spending.of(results, place, method, megabytes(cost), f"{{:.1f}} MB {side}")
        for side, cost in COSTS.items()
    }


def megabytes(cost: Cost) -> Cost:
    return lambda point: cost(point) / 1e6


def by_bytes(results: Results, place: DataSplit, method: str, figures: str) -> Finding:
    """At the budget of bytes up and at that of both ways: one claim, since rivals often are as accurate at both."""
    claim = (
        f"{method} is more accurate than FedAvg, FedAdam and FedAMS at equal bytes, up and both ways "
        f"({where(place)})"
    )
    if missing(results, place, method, *BASELINES):
        return not_run(claim, figures)
    budgets = bytes_budgets(results, place, method)
    text = told(results, list(budgets.values()))
    better = tuple(
        one for side, budget in budgets.items() for one in budget.compared(results, f"bytes {side}")
    )
    found = Finding(claim, figures, text, comparisons=better, family=FIGURES[place])
    return with_its_rule(results, ran(results, place, method, *BASELINES)[method], method, found)


def seconds_on_a_link(clients: int) -> Cost:
    """Rounds of local training, and the transfers of one client of each, the links of all working at once."""
    return lambda point: point.version * TRAINING_S + point.bytes / clients / LINK_BYTES_S


def at_equal_seconds(results: Results, place: DataSplit, method: str, clients: int) -> Finding:
    claim = f"{method} is more accurate than FedAvg, FedAdam and FedAMS at equal seconds on 1 Mbit/s ({where(place)})"
    if missing(results, place, method, *BASELINES):
        return not_run(claim, OWN)
    budget = Spending.of(results, place, method, seconds_on_a_link(clients), "{:.0f} s")
    note = (
        f"a round of local training takes {TRAINING_S:g} s; transfers by their bytes. FedBACA: "
        f"{how_often(results, budget.own[method])}."
    )
    better = tuple(budget.compared(results))
    family = f"seconds, {where(place)}"
    return Finding(claim, OWN, told(results, [budget]), note=note, comparisons=better, family=family)
