"""Cells on synthetic data sets each of which has a rate of its own, chosen on it by runs with other seeds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from fedpace.algorithm import Algorithm
from fedpace.reproduce.cell import Cell
from fedpace.reproduce.fednova.testbeds import BEDS, LAST, cell
from fedpace.reproduce.results import Results
from fedpace.reproduce.tuning import Grid, final_accuracy

PLACE = "synthetic(1,1)"
BED = replace(
    BEDS["quick"][PLACE],
    evaluate_every=2,
    tried=(0.00125, 0.005, 0.02, 0.08, 0.32),  # the paper has 0.02
    data_sets=range(20, 30),  # no. 0 to 19 were looked at for the rows of Figures 6 and 7
)
AtRate = Callable[[float], Algorithm]


@dataclass(frozen=True, slots=True)
class TunedMethod:
    """A method whose local rate is chosen on every data set by itself."""

    name: str
    at: AtRate
    below: float = math.inf  # rates from here on are not run: a proximal pull would overshoot

    def grids(self) -> list[Grid]:
        return [self._grid(number) for number in BED.data_sets]

    def rates(self, known: Results) -> tuple[float, ...]:
        """One for each data set; empty before all were tuned."""
        chosen = [setting for grid in self.grids() if (setting := grid.committed(known)) is not None]
        return tuple(rate for rate, _ in chosen) if len(chosen) == len(BED.data_sets) else ()

    @property
    def _rates(self) -> tuple[float, ...]:
        """With one near the bound, if there is one: the step after the largest would be beyond it."""
        return BED.tried if math.isinf(self.below) else (*BED.tried, 0.8 * self.below)

    def _grid(self, number: int) -> Grid:
        name = f"{self.name}, {PLACE} no. {number}"
        bed = replace(BED, task=replace(BED.task, data_seed=number))

        def tried(rate: float, _: str) -> Cell | None:
            if rate >= self.below:
                return None
            return replace(cell(f"rates {name}: {rate:g}", self.at(rate), bed), seeds=1)

        return Grid(f"rate of {name}", self._rates, tried, final_accuracy(LAST), seeds=BED.tuned_on)


def cell_at(label: str, at: AtRate, rates: tuple[float, ...]) -> Cell:
    """One run on every data set, each at the rate that is its own."""
    every = tuple(at(rate) for rate in rates)
    return cell(label, every[0], BED, every)


def listed(rates: Iterable[float | None]) -> str:
    """`0.02`; of several data sets with how many have each: `0.02 (3), 0.08 (7)`."""
    found = Counter(f"{rate:g}" for rate in rates)
    if found.total() == 1:
        return next(iter(found))
    return ", ".join(f"{rate} ({found[rate]})" for rate in sorted(found, key=float))
