"""DeFedAvg's linear speedup where gradient noise decides: the best server rate for every n.

Theorems 1 and 2 promise T ∝ 1/n where averaging the noise of stochastic gradients is all that is left to do. Three
things hide it in Figure 6: batches of ten and an easy target; one server rate for all n; and staleness, which falls as
n grows among 100 active clients, and with it the need for a small rate. Here every n has the server rate that takes it
to the target soonest, and 5 n clients are active: much the same staleness for every n. Two tasks: Fashion-MNIST with
batches of one, and a quadratic whose gradients are mostly noise.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fedpace import algorithms
from fedpace.reproduce import pictures as draw
from fedpace.reproduce.cell import Cell, TaskMaker
from fedpace.reproduce.comparison import cheaper
from fedpace.reproduce.defedavg.noisy_quadratic import NoisyQuadratic
from fedpace.reproduce.defedavg.setting import SCALES, devices
from fedpace.reproduce.defedavg.slopes import SLOPE_MARGIN, linear, rounds_by_seed, slope_of
from fedpace.reproduce.experiment import OWN, ClaimSource, Finding, Table, not_run, not_tested
from fedpace.reproduce.results import Results
from fedpace.reproduce.tuning import Grid, soonest

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FIXED = 10  # the n of the control
LOCAL, STEPS = 0.01, 10
PER_UPDATE = 5  # active clients for each update of a step
VARIANCE, HUNDREDTH = 1000.0, 0.01  # of the quadratic: of a gradient, and what is left of its squared norm
UPDATES = 24_000  # ... for every n
PUBLISHED = "Theorem 2: error O(1/√(nKT)), so T ∝ 1/n"
STALENESS_DECIDES = (
    "the best server rate is the same for every n, and with the next larger one runs fall apart or are slower: "
    "staleness limits it, not gradient noise, so the theorems' regime is not met. (That this makes the claim untested "
    "was added after these runs were seen; the slope alone would contradict it.)"
)


@dataclass(frozen=True, slots=True)
class NoiseStudy:
    """One task, for several n: the best server rate of each, and n = 10 at the rates of the others."""

    prefix: str  # of its cells' names
    title: str
    where: str
    task: Callable[[int], TaskMaker]  # for this n
    n: tuple[int, ...]
    rates: tuple[float, ...]
    target: float
    rounds: Callable[[int], int]  # for this n
    evaluate_every: Callable[[int], int]
    possible: Callable[[float, int], bool] = lambda rate, n: True  # else a rate is not tried for this n

    def cells(self, known: Results) -> list[Cell]:
        """The grids; then every n at its best rate, and n = 10 at the rates of the others."""
        every = [cell for grid in self.grids() for cell in grid.cells()]
        chosen = {n: cell for n in self.n if (cell := self._grid(n).chosen(known)) is not None}
        every += [replace(cell, name=self.best(n), seeds=None) for n, cell in chosen.items()]
        rates = {n: _rate(cell) for n, cell in chosen.items() if n != FIXED}
        return [*every, *(self._cell(self.control(n), FIXED, rate) for n, rate in rates.items())]

    def grids(self) -> list[Grid]:
        return [self._grid(n) for n in self.n]

    def best(self, n: int) -> str:
        return f"{self.prefix} n={n}, best rate"

    def control(self, n: int) -> str:
        return f"{self.prefix} n={FIXED}, rate of n={n}"

    def with_fixed_n(self, n: int) -> str:
        return self.best(n) if n == FIXED else self.control(n)

    def _grid(self, n: int) -> Grid:
        def cell(rate: float, _: str) -> Cell | None:
            if not self.possible(rate, n):
                return None
            return replace(self._cell(f"{self.prefix} n={n}, server rate {rate:g}", n, rate), seeds=1)

        return Grid(self.best(n), self.rates, cell, soonest(self.target, draw.steps))

    def _cell(self, label: str, n: int, server: float) -> Cell:
        rule = algorithms.defedavg_iid(
            buffer=n, server_lr=server, steps=STEPS, client_lr=LOCAL, batch_size=1, distinct=True
        )
        return Cell(
            name=label,
            algorithm=rule,
            task=self.task(n),
            population=devices(),
            rounds=self.rounds(n),
            evaluate_every=self.evaluate_every(n),
            stop_at=self.target,
        )

    # ------------------------------------------------------------ judgement

    def judged(self, results: Results) -> bool:
        return results.have(*map(self.best, self.n))

    def findings(self, results: Results) -> list[Finding]:
        return [self._linear(results), self._control(results)]

    def _linear(self, results: Results) -> Finding:
        claim = (
            f"linear speedup: rounds ∝ 1/n at the best rate for every n where noise dominates ({self.where})"
        )
        if not self.judged(results):
            return not_run(claim, PUBLISHED)
        by_seed = rounds_by_seed(results, {n: self.best(n) for n in self.n}, self.target)
        parts = {
            "slope -1": self.n,
            "slope -1, smallest three n": self.n[:3],
            "slope -1, largest three n": self.n[-3:],
        }
        slopes = {
            what: {seed: slope_of({n: rounds[n] for n in part}) for seed, rounds in by_seed.items()}
            for what, part in parts.items()
        }
        over_all = slopes["slope -1"].values()
        took = ", ".join(f"n = {n}: {self._took(results, self.best(n))}" for n in self.n)
        text = f"{took} rounds; slope {statistics.fmean(over_all):.2f}"
        if self._one_rate(results):
            return not_tested(claim, PUBLISHED, text, STALENESS_DECIDES)
        fall = tuple(linear(by_seed, what) for what, by_seed in slopes.items())
        note = (
            f"{self.title}: {STEPS} local steps at {LOCAL}, to {self.target:.0%}, {PER_UPDATE} n active clients; "
            f"linear within {SLOPE_MARGIN} of the slope -1, over all n, the smallest three and the largest three. The "
            f"first evaluation at the target counts, and the {len(by_seed)} seeds with which every n gets there. A run "
            f"has {UPDATES:,} updates at most, whatever n: were the slope far above -1, the largest n would not get "
            f"there and nothing be decided. Mean staleness {self._staleness(results)}."
        )
        return Finding(claim, PUBLISHED, text, note=note, comparisons=fall, family="Theorems 1, 2")

    def _staleness(self, results: Results) -> str:
        means = [results.spread(self.best(n), lambda o: o.mean_staleness).mean for n in self.n]
        return ", ".join(f"{mean:.1f}" for mean in means)

    def _control(self, results: Results) -> Finding:
        claim = (
            f"more updates, not larger rates: n = {FIXED} at the rate of a larger n needs more rounds than it "
            f"({self.where})"
        )
        larger = [n for n in self.n if n > FIXED]
        if not results.have(*map(self.best, larger), *map(self.control, larger)):
            return replace(not_run(claim, OWN), source=ClaimSource.OWN)
        slower = tuple(
            cheaper(results, self.best(n), self.control(n), self.target, draw.steps) for n in larger
        )
        took = "; ".join(
            f"rounds at the rate of n = {n}: n = {FIXED} {self._took(results, self.control(n))}, n = {n} "
            f"{self._took(results, self.best(n))}"
            for n in larger
        )
        family = f"more updates, {self.where}"
        if self._one_rate(results):
            why = "the best rate is the same for every n, so there is no larger one to compare with."
            return replace(not_tested(claim, OWN, took, why), source=ClaimSource.OWN)
        return Finding(claim, OWN, took, comparisons=slower, family=family, source=ClaimSource.OWN)

    def _one_rate(self, results: Results) -> bool:
        return len({_rate(cell) for n in self.n if (cell := self._grid(n).chosen(results)) is not None}) == 1

    def _took(self, results: Results, cell: str) -> str:
        return f"{results.to_target(cell, self.target, draw.steps):.0f}"

    # ------------------------------------------------------------ table, picture

    def table(self, results: Results) -> Table:
        """Rounds to the target, and the rates that were chosen."""
        chosen = [self._grid(n).chosen(results) for n in self.n]
        rows = [
            ("server rate", *("" if cell is None else f"{_rate(cell):g}" for cell in chosen)),
            ("rounds at this rate", *(self._took(results, self.best(n)) for n in self.n)),
            (f"... with n = {FIXED}", *(self._took(results, self.with_fixed_n(n)) for n in self.n)),
        ]
        return Table(self._heading(), ("", *(f"n = {n}" for n in self.n)), rows)

    def draw(self, axes: Axes, results: Results) -> None:
        lines = {"best rate of n": self.best, f"the same rate, n = {FIXED}": self.with_fixed_n}
        for at, (label, cell) in enumerate(lines.items()):
            took = {n: results.to_target(cell(n), self.target, draw.steps) for n in self.n}
            there = {n: spread.mean for n, spread in took.items() if spread.reached}
            axes.plot(list(there), list(there.values()), marker="o", color=draw.colour(at), label=label)
            if at == 0 and there:
                first, value = next(iter(there.items()))
                line = [value * first / n for n in self.n]
                axes.plot(self.n, line, color="#999999", linestyle=":", label="∝ 1/n")
        draw.loglog(axes, self.n)
        draw.titled(axes, self._heading(), "updates per server step, n", "server steps", "best")

    def _heading(self) -> str:
        return f"{self.title}: rounds to {self.target:.0%}"


def _rate(cell: Cell) -> float:
    return float(cell.name.split()[-1])


def _gets_there(rate: float, n: int) -> bool:
    """Of the quadratic: with noise that settles below twice the target, and soon enough without any noise."""
    settles = rate * LOCAL * VARIANCE / (2 * n)
    rounds = math.log(1 / HUNDREDTH) / (2 * rate * LOCAL * STEPS)
    return settles <= 2 * HUNDREDTH and rounds <= UPDATES / n


IMAGES = NoiseStudy(
    "noise",
    "Batches of one",
    "iid",
    lambda n: replace(SCALES["quick"].task("iid"), clients=PER_UPDATE * n),
    (5, 10, 20, 40),
    (0.03, 0.1, 0.3, 1.0),
    target=0.78,
    rounds=lambda n: 1000,
    evaluate_every=lambda n: 5,
)
QUADRATIC = NoiseStudy(
    "quadratic",
    "Noisy quadratic",
    "a quadratic with noisy gradients",
    lambda n: NoisyQuadratic(PER_UPDATE * n, VARIANCE),
    (5, 10, 20, 40, 80),
    tuple(round(0.005 * 2 ** (k / 2), 4) for k in range(13)),  # to 0.32
    target=1 - HUNDREDTH,
    rounds=lambda n: UPDATES // n,
    evaluate_every=lambda n: 80 // n,
    possible=_gets_there,
)
STUDIES = (IMAGES, QUADRATIC)


def cells(known: Results) -> list[Cell]:
    return [cell for study in STUDIES for cell in study.cells(known)]


def grids() -> list[Grid]:
    return [grid for study in STUDIES for grid in study.grids()]


def findings(results: Results) -> list[Finding]:
    return [finding for study in STUDIES for finding in study.findings(results)]


def tables(results: Results) -> list[Table]:
    return [study.table(results) for study in STUDIES if study.judged(results)]


def pictures(results: Results) -> dict[str, Figure]:
    judged = [study for study in STUDIES if study.judged(results)]
    if not judged:
        return {}
    with draw.style():
        figure, (row,) = draw.sheet(len(judged), width=5.2, height=3.6)
        for axes, study in zip(row, judged, strict=True):
            study.draw(axes, results)
    return {"noise": figure}
