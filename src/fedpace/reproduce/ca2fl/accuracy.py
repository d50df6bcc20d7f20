"""CA2FL, Tables 1 to 3: final accuracy and rounds to a target, with caches of 32, 8, 4 and 2 bits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from fedpace.reproduce import pictures as draw
from fedpace.reproduce.ca2fl import two_bits
from fedpace.reproduce.ca2fl.accuracy_claims import CNN, FIRST_ROUND, PRINTED_ROUNDS, final, findings
from fedpace.reproduce.ca2fl.cells import (
    ALPHAS,
    COMPARED,
    SCALES,
    as_judged,
    cell,
    grid_of,
    name_of,
    tuned_rates,
)
from fedpace.reproduce.ca2fl.methods import BITS, BUFFER, FEDASYNC, L2_BITS, METHODS, RatePair, printed_rates
from fedpace.reproduce.cell import Cell
from fedpace.reproduce.experiment import Procedure, Table, compared, reproduction
from fedpace.reproduce.outcome import Evaluation
from fedpace.reproduce.results import Results
from fedpace.reproduce.tuned_cells import tuned
from fedpace.reproduce.tuning import Grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def cells(edition: str, known: Results) -> list[Cell]:
    """At the printed rates; quick: every method at its choice, and the printed rates if asked for."""
    printed = [cell(edition, name_of(method, alpha), method, alpha) for method, alpha in COMPARED]
    if edition == "full":
        return printed
    printed = [replace(each, by_name=True) for each in printed]
    chosen = {where: rates for where in COMPARED if (rates := tuned_rates(*where, known)) is not None}
    return [
        *printed,
        *(cell(edition, tuned(name_of(*where)), *where, rates) for where, rates in chosen.items()),
        *two_bits.cells(),
    ]


def grids(edition: str) -> list[Grid]:
    """The full edition has the paper's network, and its rates."""
    if edition == "full":
        return []
    return list({(grid := grid_of(*where)).name: grid for where in COMPARED}.values())


# ----------------------------------------------------------------------------------- tables, pictures


def tables(edition: str, known: Results) -> list[Table]:
    results = as_judged(known)
    printed = _ends(edition, known, "Final accuracy at the printed rates, %")
    if results is known:
        return [printed, *two_bits.tables(known)]
    return [
        _ends(edition, results, "Final accuracy at tuned rates, %"),
        printed,
        _rates(known),
        *two_bits.tables(known),
    ]


def _ends(edition: str, results: Results, title: str) -> Table:
    target = SCALES[edition].target
    rows = []
    for method in METHODS:
        row = [method]
        for alpha, value in zip(ALPHAS, CNN.get(method, (None, None)), strict=True):
            row += ["" if value is None else f"{value:.2f}", f"{final(results, method, alpha):.2f}"]
        reached = results.to_target(name_of(method, 0.3), target, draw.steps)
        rows.append((*row, _first_round(method), f"{reached:.0f}"))
    columns = ("0.3 published", "0.3 ours", "0.1 published", "0.1 ours")
    return Table(title, ("", *columns, "round at 50 %, published", f"step at {target:.0%}, ours"), rows)


def _first_round(method: str) -> str:
    published = FIRST_ROUND.get(method)
    return (
        "" if published is None else str(published) if published <= PRINTED_ROUNDS else f"> {PRINTED_ROUNDS}"
    )


def _rates(known: Results) -> Table:
    """Server rate, or FedAsync's weight, and local rate."""

    def shown(rates: RatePair | None) -> str:
        return "" if rates is None else f"{rates.server:g}, {rates.local:g}"

    rows = [
        (
            method,
            shown(printed_rates(method)),
            *(shown(tuned_rates(method, alpha, known)) for alpha in ALPHAS),
        )
        for method in ("FedBuff", "CA2FL", *FEDASYNC)
    ]
    header = ("", "printed", *(f"tuned, {alpha}" for alpha in ALPHAS))
    return Table("Server rate (FedAsync: alpha) and local rate", header, rows)


def pictures(edition: str, known: Results) -> Mapping[str, Figure]:
    results = as_judged(known)
    ran = [alpha for alpha in ALPHAS if any(results.have(name_of(method, alpha)) for method in METHODS)]
    with draw.style():
        figure, ((*panels, bars),) = draw.sheet(len(ran) + 1, width=4.4)
        for axes, alpha in zip(panels, ran, strict=True):
            for at, method in enumerate(METHODS):
                if results.have(name := name_of(method, alpha)):
                    x = draw.steps if method in FEDASYNC else _updates
                    draw.curve(axes, results.of(name), method, at, x, smooth=2)
            draw.titled(axes, f"Dirichlet {alpha}", "client updates used", "test accuracy, %", "lower right")
        shown = ("FedBuff", "CA2FL", "MF-CA2FL 8 bits", "MF-CA2FL 4 bits")
        draw.bars(
            bars,
            ["FedBuff", "CA2FL", "8 bits", "4 bits"],
            {
                "published": [CNN[m][1] or 0.0 for m in shown],
                "ours": [final(results, m, 0.1).mean for m in shown],
            },
            {"ours": [final(results, m, 0.1).deviation for m in shown]},
        )
        bars.set_ylim(top=65)  # room for the legend
        draw.titled(bars, "Final accuracy, Dirichlet 0.1", "", "%", "upper right")
    return {"accuracy": figure, "heterogeneity": _by_heterogeneity(results), **_by_bits(results)}


def _by_heterogeneity(results: Results) -> Figure:
    """Figures 1 (c) and 3 (a): CA2FL at the levels of heterogeneity, here with FedBuff beside it."""
    with draw.style():
        figure, (row,) = draw.sheet(2, width=4.6, sharey=True)
        for axes, method in zip(row, ("CA2FL", "FedBuff"), strict=True):
            shown = {f"Dirichlet {alpha}": name_of(method, alpha) for alpha in ALPHAS}
            draw.curves(axes, results, shown, smooth=2)
            legend = "lower right" if any(results.have(name) for name in shown.values()) else None
            draw.titled(axes, method, "server steps", "test accuracy, %", legend)
    return figure


def _by_bits(results: Results) -> dict[str, Figure]:
    """Figure 3 (b): bits of the cache, with a scale for every block of it and with QSGD's for all of it."""
    plain = {"FedBuff": "FedBuff", "32 bits": "CA2FL"}
    scales = {
        "one scale per block": {f"{bits} bits": method for method, bits in BITS.items()},
        "the L2 norm as scale (QSGD)": {f"{bits} bits": method for method, bits in L2_BITS.items()},
    }
    if not all(
        results.have(name_of(method, ALPHAS[0])) for shown in scales.values() for method in shown.values()
    ):
        return {}
    with draw.style():
        figure, (row,) = draw.sheet(2, width=4.6, sharey=True)
        for axes, (title, shown) in zip(row, scales.items(), strict=True):
            cells = {label: name_of(method, ALPHAS[0]) for label, method in (plain | shown).items()}
            draw.curves(axes, results, cells, smooth=2)
            draw.titled(
                axes, f"{title}, Dirichlet {ALPHAS[0]}", "server steps", "test accuracy, %", "lower right"
            )
    return {"bits": figure}


def _updates(point: Evaluation) -> float:
    return float(point.version * BUFFER)


QUICK = """
## What tuning changed

Before rates were tuned for this network, as the paper tunes them for its own, all methods had the rates in print,
which are those of the paper's CNN, and five seeds; CA2FL was then 3.5 and 6.3 points above FedBuff. By tuning FedBuff
gains five and seven points and CA2FL two, so 0.4 and 0.9 are left of the lead; "the gain grows" went from reproduced
(p 0.049) to undecided, and both rows on two bits with block scales from contradicted to undecided (that at 0.1 is the
only claim of ours in its family since, and reproduced). On the tuning seeds the lead at local rates 0.01 and 0.03 is
larger at server rate 1 (1.7 to 2.0 points at Dirichlet 0.3, 5.3 to 5.9 at 0.1) than at 0.3 (0.6 to 0.8 and 1.5 to
1.9). The paper's grid has one rate per decade; here server rates of 0.09 to 2 and local ones of 0.003 to 0.3 were
tried, on seeds of their own.

The target of the last claim was 36 % at the rates in print; 43 %, just below where FedBuff ends on the seeds for
tuning, as the paper's 50 % is, was set after the tuned runs. The first row has the runs of
[ca2fl-sensitivity](../ca2fl-sensitivity/README.md) at 20 active clients and buffers of ten, which is not judged there
again.

## Two quantisers

The paper does not say how it quantises. Until a review the rows with block scales were the paper's for 8 and 4 bits and
ours for two, those with QSGD's scale the paper's for two bits and ours for 8 and 4: in both cases the half that comes
out was counted for the paper. Both quantisers are readings of the paper now, with all of their rows at Dirichlet 0.3.

## Two bits with the paper's CNN

The collapse in print is of 500 rounds, about three hours of a core a run; here are the first 75, at the printed
rates, with two seeds, one with block scales. So these rows are claims of ours and decide nothing about the paper's;
the one with QSGD's scale was counted as the paper's until its first run was seen. After 75 rounds a cache of two bits
with that scale is 5.4 points above FedBuff on one seed and 1.2 below on the other, with block scales 8.7 above on
the one seed that was run. (40 rounds were tried first, since the small network shows the collapse after 30; on one
seed there was nothing to see.)
"""
FULL = """
## How far this got

FedBuff and CA2FL at Dirichlet 0.1, one seed, 2.7 hours of one core each, with delays |N(0, s²)|, the other reading of
the text; with s + |N(0, 1)| nothing was run in this edition. CA2FL is above FedBuff in all 50 evaluations, by 3.9
points on average, and steadier, but the gap at the end is 1.5 points where the paper has 6.4; both end above the
printed accuracies (60.2 and 61.8 % against 43.7 and 50.1 %). The paper prints neither its preprocessing nor how the
network is initialised. The other cells would take another day.
"""
_COMMON = compared(
    """
    clients | 100; 20 active, buffer 10; dispatch after each step | the same
    local work | 2 epochs, batch 50, weight decay 1e-4 | the same
    delays | half-normal, parameter s drawn from U(0,5) per client
        | s + |N(0, 1)|, which is nearest to the printed staleness (ca2fl-delay), as in ca2fl-sensitivity
    cache | quantiser not given | stochastic, unbiased, one scale per block; fresh updates at full precision
    FedAsync | Table 7: exponent 0.3 (polynomial), rho 1 | the same; compared at equal numbers of updates
    """
)

EXPERIMENT = reproduction(
    "ca2fl-accuracy",
    """
    CA2FL: cached calibration against FedBuff

    Wang et al., "Tackling the Data Heterogeneity in Asynchronous Federated Learning with Cached Update
    Calibration" (CA2FL), Workshop on Federated Learning and Analytics in Practice, ICML 2023: Tables 1 to 3,
    Figures 2, 3 (b) and 6

    CA2FL corrects each buffered step with the last update of every client. The paper finds that it ends above
    FedBuff, the more so the more clients differ, and that the cache may be quantised to 8 or 4 bits, not to 2.
    MF-CA2FL (memory-friendly) keeps the cache at 8, 4 or 2 bits.
    """,
    Procedure(cells, findings, tables, pictures, grids),
    {
        "quick": (
            *compared(
                """
                data, network | CIFAR-10; CNN of 2.2 M parameters, ResNet-18
                    | CIFAR-10; one hidden layer of 32 units (98,666 parameters)
                rounds | 500 | 100
                rates | tuned; local 0.01, server 1 for all, FedAsync's alpha 0.3 and 0.5 (Tables 6, 7)
                    | tuned for this network: FedBuff and CA2FL for each split, CA2FL's for its caches, FedAsync's
                    alpha and local rate at Dirichlet 0.3; also the printed ones
                """
            ),
            *_COMMON,
            *compared(
                """
                two bits (Table 1) | CNN | also the CNN, 75 rounds (cells `CNN ...`)
                """
            ),
        ),
        "full": (
            *compared(
                """
                data, network | CIFAR-10; CNN of 2.2 M parameters, ResNet-18 | CIFAR-10; the CNN
                rounds | 500 | 500
                rates | local 0.01, server 1; FedAsync's alpha 0.3 and 0.5 (Tables 6, 7) | the same
                """
            ),
            *_COMMON,
        ),
    },
    notes={"quick": QUICK, "full": FULL},
)
