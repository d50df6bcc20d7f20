"""CA2FL's main claim: it loses less than FedBuff where updates are staler, over concurrency and buffer size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from fedpace.reproduce import pictures as draw
from fedpace.reproduce.ca2fl.cells import (
    LAST,
    SCALES,
    Slots,
    cell,
    grid_of,
    tuned_rates,
)
from fedpace.reproduce.ca2fl.methods import RatePair
from fedpace.reproduce.cell import Cell
from fedpace.reproduce.comparison import Comparison, above, as_good, final_accuracy
from fedpace.reproduce.experiment import OWN, Finding, Procedure, Table, compared, not_run, reproduction
from fedpace.reproduce.results import Results
from fedpace.reproduce.tables import Columns, measured
from fedpace.reproduce.tuned_cells import at_tuned_rates, tuned
from fedpace.reproduce.tuning import Grid
from fedpace.sim import presets
from fedpace.sim.distributions import Between

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS = ("FedBuff", "CA2FL")
BY_CONCURRENCY: tuple[Slots, ...] = ((15, 10), (20, 10), (25, 10))  # Figures 1 (a, b) and 4 (a, b)
BY_BUFFER: tuple[Slots, ...] = ((20, 15), (20, 10), (20, 5))  # Figure 4 (c, d)
TABLE_2: Slots = (20, 10)  # its row at Dirichlet 0.3 has the same runs, and is counted there
FAR: Slots = (50, 10)  # staler than any in the paper
EVERY: tuple[Slots, ...] = tuple(dict.fromkeys((*BY_CONCURRENCY, *BY_BUFFER, FAR)))
ONE_FOR_ALL = "5 for all"  # every client has the same distribution of delays
DELAYS: Mapping[str, float | Between] = {"U(0,1)": 1.0, "U(0,0.5)": 0.5, ONE_FOR_ALL: Between(5.0, 5.0)}
ALPHA = 0.3
USUAL = "U(0,5)"
PLACES = (*((slots, USUAL) for slots in EVERY), *(((20, 10), delays) for delays in DELAYS))


def cells(edition: str, known: Results) -> list[Cell]:
    """At the printed rates; quick: both methods at their choices, and the printed rates if asked for."""
    places = [(method, *place) for place in PLACES for method in METHODS]
    printed = [_cell(edition, _name(*place), None, *place) for place in places]
    if edition == "full":
        return printed
    printed = [replace(each, by_name=True) for each in printed]
    chosen = {m: rates for m in METHODS if (rates := tuned_rates(m, ALPHA, known)) is not None}
    return [
        *printed,
        *(
            _cell(edition, tuned(_name(*place)), rates, *place)
            for place in places
            if (rates := chosen.get(place[0]))
        ),
    ]


def grids(edition: str) -> list[Grid]:
    """The full edition has the paper's network, and its rates."""
    return [grid_of(method, ALPHA) for method in METHODS] if edition == "quick" else []


def _cell(edition: str, name: str, rates: RatePair | None, method: str, slots: Slots, delays: str) -> Cell:
    devices = presets.ca2fl(DELAYS.get(delays, 5.0))
    return cell(edition, name, method, ALPHA, rates, slots, devices)


def _judged(results: Results) -> Results:
    """At the tuned rates, once all cells have been run there."""
    return at_tuned_rates(results, (_name(method, *place) for place in PLACES for method in METHODS))


def _name(method: str, slots: Slots, delays: str = USUAL) -> str:
    return f"{method} Mc={slots[0]} M={slots[1]} {delays}"


def findings(edition: str, known: Results) -> list[Finding]:
    results = _judged(known)
    return [
        _less(results, BY_CONCURRENCY[0], BY_CONCURRENCY[-1], "Figures 1 (a, b), 4 (a, b)"),
        _less(results, BY_BUFFER[0], BY_BUFFER[-1], "Figure 4 (c, d)"),
        _less(results, BY_CONCURRENCY[0], FAR, OWN),
        *(_ahead(results, slots) for slots in EVERY if slots != TABLE_2),
        *(_same(results, delays) for delays in DELAYS if delays != ONE_FOR_ALL),
        _worse(results),
    ]


def _less(results: Results, fresh: Slots, stale: Slots, figure: str) -> Finding:
    claim = f"from Mc, M = {fresh} to {stale} CA2FL loses less accuracy than FedBuff"
    names = {method: [_name(method, slots) for slots in (fresh, stale)] for method in METHODS}
    if not results.have(*(name for pair in names.values() for name in pair)):
        return not_run(claim, figure)
    lost = {m: above(results, first, second, final_accuracy(LAST)) for m, (first, second) in names.items()}
    seeds = tuple(sorted(set(lost["FedBuff"].seeds) & set(lost["CA2FL"].seeds)))
    sides = [_losses(lost[method], seeds) for method in METHODS]
    ours = ", ".join(
        f"{method} {sum(side) / len(side):+.2f}" for method, side in zip(METHODS, sides, strict=True)
    )
    comparison = Comparison("loss of FedBuff above loss of CA2FL", seeds, sides[0], sides[1])
    return Finding(claim, figure, f"points lost: {ours}", comparisons=(comparison,), family="Figure 4")


def _losses(comparison: Comparison, seeds: tuple[int, ...]) -> tuple[float, ...]:
    pairs = zip(comparison.larger, comparison.smaller, strict=True)
    by_seed = {seed: a - b for seed, (a, b) in zip(comparison.seeds, pairs, strict=True)}
    return tuple(by_seed[seed] for seed in seeds)


def _ahead(results: Results, slots: Slots) -> Finding:
    claim = f"CA2FL ends above FedBuff at Mc, M = {slots}"
    published = OWN if slots == FAR else "Figure 4: curves"
    names = [_name(method, slots) for method in METHODS]
    if not results.have(*names):
        why = "in a trial CA2FL fell behind FedBuff here." if slots == FAR else ""
        return not_run(claim, published, why)
    buff, ours = (results.final(name, last=LAST) for name in names)
    gain = above(results, names[1], names[0], final_accuracy(LAST))
    return Finding(claim, published, f"{buff:.2f} → {ours:.2f} %", comparisons=(gain,), family="Figure 4")


def _same(results: Results, delays: str) -> Finding:
    claim = f"CA2FL is as accurate with delays {delays} as with U(0,5), within 0.5 points"
    published = "Figure 5 (b, c): slight difference"
    names = [_name("CA2FL", (20, 10), delays), _name("CA2FL", (20, 10))]
    if not results.have(*names):
        return not_run(claim, published)
    ends = [results.final(name, last=LAST) for name in names]
    equal = as_good(results, names[0], names[1], final_accuracy(LAST))
    text = f"{ends[0]:.2f} against {ends[1]:.2f} %"
    return Finding(claim, published, text, comparisons=(equal,), family="Figure 5")


def _worse(results: Results) -> Finding:
    """The paper finds both methods worse where all clients draw from one distribution."""
    claim = f"CA2FL and FedBuff end lower with delays {ONE_FOR_ALL} than with U(0,5)"
    published = "Figures 1 (d), 5 (a): a little worse"
    pairs = {m: (_name(m, (20, 10)), _name(m, (20, 10), ONE_FOR_ALL)) for m in METHODS}
    if not results.have(*(name for pair in pairs.values() for name in pair)):
        return not_run(claim, published)
    ends = {m: [results.final(name, last=LAST) for name in pair] for m, pair in pairs.items()}
    ours = ", ".join(f"{m} {own:.2f} → {one:.2f} %" for m, (own, one) in ends.items())
    lower = tuple(above(results, *pair, final_accuracy(LAST)) for pair in pairs.values())
    return Finding(claim, published, ours, comparisons=lower, family="Figure 5")


def tables(edition: str, results: Results) -> list[Table]:
    columns: Columns = {
        "mean staleness": (lambda outcome: outcome.mean_staleness, 2),
        "max staleness": (lambda outcome: float(outcome.max_staleness), 1),
    }
    return [measured(results, LAST, 2, columns)]


def pictures(edition: str, known: Results) -> Mapping[str, Figure]:
    """A row over concurrency and one over the buffer, those that were run; and the distributions of delays."""
    results = _judged(known)
    ends = {"concurrency": BY_CONCURRENCY, "buffer": BY_BUFFER}
    rows = {
        what: slots for what, slots in ends.items() if _ran(results, slots[0]) and _ran(results, slots[-1])
    }
    drawn = {"delay": _by_slots(results, rows)} if rows else {}
    if any(results.have(_name(m, (20, 10), delays)) for delays in DELAYS for m in METHODS):
        drawn["distributions"] = _by_delays(results)
    return drawn


def _by_slots(results: Results, rows: Mapping[str, tuple[Slots, ...]]) -> Figure:
    with draw.style():
        figure, grid = draw.sheet(2, len(rows), width=4.6, sharey=True)
        for row, (what, slots) in zip(grid, rows.items(), strict=True):
            for axes, method in zip(row, METHODS, strict=True):
                shown = {f"Mc = {mc}, M = {m}": _name(method, (mc, m)) for mc, m in slots}
                draw.curves(axes, results, shown, smooth=2)
                draw.titled(axes, f"{method}, by {what}", "server steps", "test accuracy, %", "lower right")
    return figure


def _by_delays(results: Results) -> Figure:
    """Figures 1 (d) and 5: curves for every distribution of delays that was run."""
    with draw.style():
        figure, (row,) = draw.sheet(2, width=4.6, sharey=True)
        for axes, method in zip(row, METHODS, strict=True):
            shown = {f"s: {delays}": _name(method, (20, 10), delays) for delays in (USUAL, *DELAYS)}
            draw.curves(axes, results, shown, smooth=2)
            legend = "lower right" if any(results.have(name) for name in shown.values()) else None
            draw.titled(axes, f"{method}, by delays", "server steps", "test accuracy, %", legend)
    return figure


def _ran(results: Results, slots: Slots) -> bool:
    return results.have(*(_name(method, slots) for method in METHODS))


RATES = {
    "quick": "tuned for this network, 20 active clients and a buffer of 10, for each method; also the printed ones",
    "full": "the printed ones",
}
_SETTINGS = {
    edition: compared(
        f"""
        data, network | CIFAR-10, ResNet-18 | CIFAR-10, {scale.model}, Dirichlet {ALPHA}
        rounds | 500 | {scale.rounds}
        clients | 100; Mc, M = 15, 20, 25 with 10, 20 with 15 and 5 | the same; also 50 with 10
        delays | half-normal, parameter U(0,5) per client | s + |N(0, 1)|, s uniform on (0, 5)
        local work | 2 epochs, batch 50, weight decay 1e-4 | the same
        rates | tuned; local 0.01, server 1 (Table 6) | {RATES[edition]}
        """
    )
    for edition, scale in SCALES.items()
}

LOOKED = """
## What was looked at before

Before rates were tuned, all cells had the rates in print, which are those of the paper's networks, and five seeds:
from M = 15 to M = 5 FedBuff lost 12.8 points and CA2FL 14.6 (rows without `tuned`), so there was little training left
to compare. Rates are tuned now at Mc = 20 and M = 10, on seeds of their own, and serve every row, as one pair of
rates does in the paper. In a trial at Mc = 50, staler than anything in the paper, CA2FL had been behind FedBuff;
these rows are claims of ours.

At the tuned rates five seeds were judged first, and every row was undecided; ten decide some. On the five new seeds
alone (25, 10) holds among these; the others have p of 0.018 to 0.047 without a correction, on the same side. Because
the seeds were judged twice, p would have to be below 0.025: our row on where CA2FL ends at Mc = 50 (0.031) is not.
Rounds, delays and claims are as they were, but that (20, 10) is judged on the page on accuracy alone, where the same
runs are the row at Dirichlet 0.3.
"""

EXPERIMENT = reproduction(
    "ca2fl-sensitivity",
    """
    CA2FL: how much staleness costs

    Wang et al., "Tackling the Data Heterogeneity in Asynchronous Federated Learning with Cached Update
    Calibration" (CA2FL), Workshop on Federated Learning and Analytics in Practice, ICML 2023: section 6, Figures 1,
    4 and 5

    Mc clients are active at a time, M updates make a server step. More active clients or a smaller buffer make
    updates staler. The paper's main claim is that calibration by cached updates makes asynchronous training less
    sensitive to it.
    """,
    Procedure(cells, findings, tables, pictures, grids),
    _SETTINGS,
    notes={"quick": LOOKED},
)
