"""DeFedAvg's linear speedup where gradient noise decides: batches of one, and the best server rate for every n.

Theorems 1 and 2 promise T ∝ 1/n where averaging the noise of stochastic gradients is all that is left to do. Three
things hide it in Figure 6: batches of ten and an easy target; one server rate for all n; and staleness, which falls as
n grows among 100 active clients, and with it the need for a small rate. Here one sample makes a gradient, every n has
the server rate that takes it to the target soonest, and 5 n clients are active: the same staleness for every n.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from fedpace import algorithms
from fedpace.reproduce import pictures as draw
from fedpace.reproduce.cell import Cell
from fedpace.reproduce.comparison import Comparison, cheaper
from fedpace.reproduce.defedavg import SCALES, devices
from fedpace.reproduce.experiment import Finding, Table, not_run, not_tested
from fedpace.reproduce.outcome import Outcome
from fedpace.reproduce.results import Results
from fedpace.reproduce.speedup import rounds_by_seed, slope_of
from fedpace.reproduce.tuning import Grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N = (5, 10, 20, 40)
FIXED = 10  # the n of the control
LOCAL, STEPS = 0.01, 10
PER_UPDATE = 5  # active clients for each update of a step: mean staleness 4
SERVER_RATES = (0.03, 0.1, 0.3, 1.0)
TARGET = 0.78
ROUNDS = 1000
SLOPE_MARGIN = 0.3
STALENESS_DECIDES = (
    "the best server rate is the same for every n, and with the next larger one runs fall apart or are slower: "
    "staleness limits it, not gradient noise, so the theorems' regime is not met. (That this makes the claim untested "
    "was added after these runs were seen; the slope alone would contradict it.) Fewer active clients or smaller local "
    "rates would be next."
)


def cells(known: Results) -> list[Cell]:
    """The grids; then every n at its best rate, and n = 10 at the rates of the others."""
    every = [cell for n in N for cell in _grid(n).cells()]
    chosen = {n: cell for n in N if (cell := _grid(n).chosen(known)) is not None}
    every += [replace(cell, name=best(n), seeds=None) for n, cell in chosen.items()]
    rates = {n: _rate(cell) for n, cell in chosen.items() if n != FIXED}
    return [*every, *(_cell(control(n), FIXED, rate) for n, rate in rates.items())]


def grids() -> list[Grid]:
    return [_grid(n) for n in N]


def best(n: int) -> str:
    return f"noise n={n}, best rate"


def control(n: int) -> str:
    return f"noise n={FIXED}, rate of n={n}"


def _grid(n: int) -> Grid:
    def cell(rate: float, _: str) -> Cell:
        return replace(_cell(f"noise n={n}, server rate {rate:g}", n, rate), seeds=1)

    return Grid(best(n), SERVER_RATES, cell, _merit)


def _merit(outcome: Outcome) -> tuple[float, float]:
    """Rounds to the target; those that do not get there by how far they came."""
    reached = outcome.first_at(TARGET)
    return (-math.inf if reached is None else -float(reached.version), outcome.final())


def _rate(cell: Cell) -> float:
    return float(cell.name.split()[-1])


def _cell(label: str, n: int, server: float) -> Cell:
    rule = algorithms.defedavg_iid(
        buffer=n, server_lr=server, steps=STEPS, client_lr=LOCAL, batch_size=1, distinct=True
    )
    return Cell(
        name=label,
        algorithm=rule,
        task=replace(SCALES["quick"].task("iid"), clients=PER_UPDATE * n),
        population=devices(),
        rounds=ROUNDS,
        evaluate_every=5,
        stop_at=TARGET,
    )


def findings(results: Results) -> list[Finding]:
    return [_linear(results), _control(results)]


def _linear(results: Results) -> Finding:
    claim = "linear speedup: rounds ∝ 1/n at the best rate for every n where noise dominates (iid)"
    published = "Theorems 1, 2: error O(1/√(nKT)), so T ∝ 1/n"
    if not judged(results):
        return not_run(claim, published)
    slopes = {
        seed: slope_of(rounds)
        for seed, rounds in rounds_by_seed(results, {n: best(n) for n in N}, TARGET).items()
    }
    linear = Comparison(
        "slope -1", tuple(slopes), tuple(slopes.values()), (-1.0,) * len(slopes), SLOPE_MARGIN
    )
    took = ", ".join(f"n = {n}: {results.to_target(best(n), TARGET, draw.steps):.0f}" for n in N)
    note = (
        f"batch 1, {STEPS} local steps at {LOCAL}, to {TARGET:.0%}, {PER_UPDATE} n active clients; linear within "
        f"{SLOPE_MARGIN} of the slope -1."
    )
    text = f"{took} rounds; slope {sum(slopes.values()) / len(slopes):.2f}"
    if len({_rate(cell) for n in N if (cell := _grid(n).chosen(results)) is not None}) == 1:
        return not_tested(claim, published, text, STALENESS_DECIDES)
    return Finding(claim, published, text, note=note, comparisons=(linear,), family="Theorems 1, 2")


def _control(results: Results) -> Finding:
    claim = f"more updates, not larger rates: n = {FIXED} at the rate of a larger n needs more rounds than it (iid)"
    published = "Theorems 1, 2"
    larger = [n for n in N if n > FIXED]
    if not results.have(*map(best, larger), *map(control, larger)):
        return not_run(claim, published)
    slower = tuple(cheaper(results, best(n), control(n), TARGET, draw.steps) for n in larger)
    took = "; ".join(
        f"rate of n = {n}: {results.to_target(control(n), TARGET, draw.steps):.0f} rounds at n = {FIXED}, "
        f"{results.to_target(best(n), TARGET, draw.steps):.0f} at n = {n}"
        for n in larger
    )
    return Finding(claim, published, took, comparisons=slower, family="Theorems 1, 2")


# ----------------------------------------------------------------------------------- table, picture


def judged(results: Results) -> bool:
    return results.have(*map(best, N))


def table(results: Results) -> Table:
    """Rounds to the target, and the rates that were chosen."""
    chosen = {n: _grid(n).chosen(results) for n in N}
    rates = ["" if cell is None else f"{_rate(cell):g}" for cell in chosen.values()]
    rows = [
        ("server rate", *rates),
        ("rounds at this rate", *(f"{results.to_target(best(n), TARGET, draw.steps):.0f}" for n in N)),
        (
            f"... with n = {FIXED}",
            *(f"{results.to_target(_with_fixed_n(n), TARGET, draw.steps):.0f}" for n in N),
        ),
    ]
    return Table(f"Batches of one: rounds to {TARGET:.0%}, iid", ("", *(f"n = {n}" for n in N)), rows)


def _with_fixed_n(n: int) -> str:
    return best(n) if n == FIXED else control(n)


def picture(results: Results) -> Figure:
    with draw.style():
        figure, ((axes,),) = draw.sheet(1, width=5.2, height=3.6)
        lines = {"best rate of n": best, f"the same rate, n = {FIXED}": _with_fixed_n}
        for at, (label, cell) in enumerate(lines.items()):
            took = {n: results.to_target(cell(n), TARGET, draw.steps) for n in N}
            there = {n: spread.mean for n, spread in took.items() if spread.reached}
            axes.plot(list(there), list(there.values()), marker="o", color=draw.colour(at), label=label)
            if at == 0 and there:
                first, value = next(iter(there.items()))
                axes.plot(N, [value * first / n for n in N], color="#999999", linestyle=":", label="∝ 1/n")
        draw.loglog(axes, N)
        title = f"Batches of one: rounds to {TARGET:.0%}, iid"
        draw.titled(axes, title, "updates per server step, n", "server steps", "best")
    return figure
