"""Accuracy against traffic: lazy and compressed FedAMS, up and down, and our own two_way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from fedpace.reproduce import pictures as draw
from fedpace.reproduce.cell import Cell
from fedpace.reproduce.experiment import Procedure, Table, compared, reproduction
from fedpace.reproduce.outcome import Outcome
from fedpace.reproduce.results import Results
from fedpace.reproduce.tuning import Grid
from fedpace.reproduce.two_way import cells as two_way_cells
from fedpace.reproduce.two_way import cnn
from fedpace.reproduce.two_way import tuned as two_way_tuned
from fedpace.reproduce.two_way.cells import (
    BASELINES,
    LAST,
    METHODS,
    PARTITION,
    PLACES,
    SUGGESTED,
    DataSplit,
    name_of,
    where,
)
from fedpace.reproduce.two_way.findings import findings
from fedpace.reproduce.two_way.tuned import EVERYWHERE, TUNED, brief, lengths, tuned

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHOWN = ("FedAvg", "FedAMS", "FedCAMS 1/8", "FedNLAA", "FedBNLACA 1/8", "two_way 1/8", "two_way 1/32")
# FedBNLACA is left out: it is FedBACA on iid data, and within a point of it elsewhere
SHOWN_TUNED = ("FedAvg", "FedAdam", "FedAMS", "FedCAMS 1/8", "FedACA 1/8", "FedBACA 1/8", "two_way 1/8")


def cells(edition: str, known: Results) -> list[Cell]:
    small = cnn.cells(known) if edition == "quick" else []
    return [*two_way_cells.cells(edition, known), *two_way_tuned.cells(edition, known), *small]


def grids(edition: str) -> list[Grid]:
    small = cnn.grids() if edition == "quick" else []
    return [*two_way_cells.grids(edition), *two_way_tuned.grids(edition), *small]


def tables(edition: str, results: Results) -> list[Table]:
    return [
        Table(
            where(place),
            (
                "",
                "accuracy %",
                "up MB",
                "down MB",
                "nominal Mbit up",
                "nominal Mbit down",
                "fired up",
                "fired down",
            ),
            [_line(results, m, name) for m, name in _ran(results, place).items()],
        )
        for place in (*EVERYWHERE, *cnn.PLACES.values())
        if _ran(results, place)
    ]


def _ran(results: Results, place: DataSplit) -> dict[str, str]:
    """The cells of a place by their labels."""
    plain = {m: name_of(place, m) for m in (*BASELINES, *METHODS, SUGGESTED)}
    every = plain | {f"{m}, tuned": tuned(place, m) for m in TUNED}
    every |= {
        f"{m}, tuned for {rounds} rounds": brief(place, m, rounds)
        for m in TUNED
        for rounds in lengths(place, m)
    }
    return {label: name for label, name in every.items() if results.have(name)}


def _line(results: Results, method: str, name: str) -> tuple[str, ...]:
    bits = [results.spread(name, partial(_nominal, side=side)).mean for side in ("up", "down")]
    return (
        method,
        f"{results.final(name, last=LAST):.2f}",
        *(f"{results.spread(name, partial(_sent, side=side)).mean:.2f}" for side in ("up", "down")),
        *(f"{value:.1f}" for value in bits),
        *(f"{results.spread(name, partial(_fired, side=side)).mean:.1%}" for side in ("up", "down")),
    )


def _fired(outcome: Outcome, side: str) -> float:
    """How often a lazy rule acted, of the frames of one direction."""
    return outcome.traffic[side].get("firing_rate", 0.0)


def _sent(outcome: Outcome, side: str) -> float:
    """Megabytes until the end."""
    return float(getattr(outcome, f"bytes_{side}")) / 1e6


def _nominal(outcome: Outcome, side: str) -> float:
    """Megabits as papers count them: 32 per value, and the positions."""
    return (outcome.traffic[side]["value_bits"] + outcome.traffic[side]["index_bits"]) / 1e6


def pictures(edition: str, results: Results) -> Mapping[str, Figure]:
    """Each method at its own best, where all of them were run; in the full edition as they come."""
    with draw.style():
        return _as_they_come(results) if edition == "full" else _tuned(results)


def _as_they_come(results: Results) -> dict[str, Figure]:
    figure, (row,) = draw.sheet(2, width=6.0, height=4.0)
    for axes, split in zip(row, PARTITION, strict=True):
        place = DataSplit("Fashion-MNIST", split)
        _against_bytes(axes, results, place, {method: name_of(place, method) for method in SHOWN})
    return {"bits": figure}


def _tuned(results: Results) -> dict[str, Figure]:
    sheets: dict[str, Mapping[DataSplit, Sequence[str]]] = {
        "tuned": dict.fromkeys(PLACES, SHOWN_TUNED),
        "cnn": {place: tuple(cnn.CHOSEN[split]) for split, place in cnn.PLACES.items()},
    }
    return {name: drawn for name, shown in sheets.items() if (drawn := _sheet(results, shown)) is not None}


def _sheet(results: Results, shown: Mapping[DataSplit, Sequence[str]]) -> Figure | None:
    best = {
        place: {f"{method}, tuned": tuned(place, method) for method in methods}
        for place, methods in shown.items()
    }
    ran = {place: cells for place, cells in best.items() if results.have(*cells.values())}
    if not ran:
        return None
    figure, grid = draw.sheet(2, (len(ran) + 1) // 2, width=6.0, height=4.0)
    for axes, (place, cells) in zip(grid.flat, ran.items(), strict=False):
        _against_bytes(axes, results, place, cells)
        _tuned_for_few_rounds(axes, results, place, list(cells.values()))
    return figure


def _tuned_for_few_rounds(axes: Axes, results: Results, place: DataSplit, drawn: Sequence[str]) -> None:
    """The rivals that the smallest budgets are judged against: dashed, in the colours of the same methods above."""
    for method in BASELINES:
        rounds = min(lengths(place, method))
        if results.have(short := brief(place, method, rounds)) and tuned(place, method) in drawn:
            label = f"{method}, tuned for {rounds} rounds"
            at = drawn.index(tuned(place, method))
            draw.curve(axes, results.of(short), label, at, draw.megabytes, linestyle="--")
    axes.legend(loc="lower right", fontsize=7)


def _against_bytes(axes: Axes, results: Results, place: DataSplit, cells: Mapping[str, str]) -> None:
    draw.curves(axes, results, cells, draw.megabytes)
    axes.set_xscale("log")
    draw.titled(
        axes, where(place), "MB sent, both directions (real bytes)", "test accuracy, %", "lower right"
    )


_COMMON = compared(
    """
    network | MLP and CNN, sizes not given; the text describes the CNN's figures | MLP 784-64-10 (50,890 parameters)
    split | iid; non-iid, scheme not given | iid; sorted by label, two shards per client
    compression | top-k 1/8 and 1/128 | top-k 1/8, 1/32 and 1/128
    first model of a client | compressed like any other (Algorithm 2) | sent whole, by every method
    rates, moments, thresholds | not given
        | local 0.05; server rate: the best in a small grid for each baseline, FedAMS's for its relatives; 0.9, 0.99,
        1e-3; tau 0.5 (NLA), 0.3 (AA); `tuned`: the best server rate, eps 1e-3 or 1e-7, b1 0.9 or 0 and threshold, for
        each method and split, on Fashion-MNIST with half of the clients; rivals also for fewer rounds. Grids are run
        on seeds of their own where tuning.json has the choice, else on the first seed
    bits | not defined | real bytes of the frames; nominal: 32 bits per value plus positions
    reading | left open whether the receiver holds the value that is compared and reused | it holds it
    """
)

QUICK = """
## What to make of it

Accuracy at a budget is read on the line between the evaluations around it. (The mean of the evaluations before it,
which was used at first, left an uncompressed method with its first two and was worth up to seven points to FedBACA.)

A rival has settings tuned for about the rounds that the budget leaves it: ten for FedBACA's bytes and FedACA's
uploads, 36 for FedACA's bytes both ways, 22 for FedBACA's seconds; and FedACA, against FedBACA, for 18 (`tuned for`
in the tables; where FedACA's rule does not fire, on iid data, nothing was tuned for it).

The lengths 18, 22 and 36 were added after rows had been judged with rivals tuned for sixty. Of the eight rows that
they concern three went from reproduced to undecided, two of FedACA against the uncompressed methods and one of
FedBACA against FedACA. For 36 rounds FedAdam and FedAMS chose what they have for sixty; there it counts that these
runs are evaluated in every round and not in every fourth (FedAdam, Fashion-MNIST: 80.2 % at round 34, where the line
from round 32 to 36 has 79.2 %). FedNLAA with all clients, non-iid, was contradicted (p 0.031) and is undecided
(0.062) only because these rows are corrected together with it.

The paper says of Figures 1 to 4, with a CNN, what is judged here with an MLP in the places of Figures 5 to 12, of
which it has captions only; claims are corrected for their number in each of these.

`two_way` sends as much as FedBACA and ends 2.6 to 4.7 points above it on iid data, 0.5 to 3.7 above on the non-iid
splits. Against FedCAMS, iid, it is 0.4 to 1.2 points ahead at under a third of the bytes; non-iid it is 1.1 to 1.7
points behind. At FedAMS's rate the literal downlink falls apart on iid data (74 %), at its own it does not (83 %).

## Settings

All settings are chosen on Fashion-MNIST with half of the clients, on seeds of their own, and taken over for MNIST and
for all clients, where they are not always the best: on MNIST, iid, FedCAMS has 95.7 % with them and 96.2 % at
FedAMS's rate. FedNLACA and the ratios 1/32 and 1/128 are not tuned.

Thresholds tried are 0.3, 0.5, 0.8 for FedNLAA, 0.5 and 0.8 for FedBNLACA, 0.3 to 1.5 for AA with compression and 0.1,
0.3, 0.6 for FedAA, whose best is 0.1, at which it never fires. FedNLAA and FedBNLACA chose the smallest, FedBACA on
non-iid data the largest; these ends were not extended. AA's were extended past 1 after the page had them at that end:
FedBACA's best are now 1.2 (iid) and 1.5, FedACA's 1.2 on non-iid data, near or past the distance of orthogonal
updates (1.41): about half of the updates are added to the ones before on non-iid data, up to 6 % on iid data; the
margins over smaller thresholds are 0.2 to 0.8 points on the tuning seeds. They are chosen at equal rounds, which
speaks against skipping.

Settings tried: FedAvg 3, FedAdam and FedAMS 12 to 16 (12 to 20 for ten rounds), FedCAMS 12 to 16, `two_way` 12 to 20,
FedBNLACA 32, FedNLAA and FedAA 36 to 48, FedACA 60 to 80 (100 for 18 rounds), FedBACA 80.

## Seeds

The MLP has ten seeds, the rule where a run takes less than two minutes; the first five were judged before. Against
the rivals of that time nine of the paper's claims that five seeds had left undecided were decided by ten; on the five
new seeds alone five of the nine held and four were undecided, all with means on the same side. Four of them (p 0.027
to 0.039) would not have passed a correction for having looked twice: of these, FedACA against FedCAMS on
Fashion-MNIST still counts as reproduced, the other three are undecided against today's rivals.

## The small CNN

With the small CNN (ten seeds, tuned on one) compressing the model itself costs more than with the MLP: at FedBACA's
bytes both ways it has 72 % on iid data, where FedAdam and FedAMS without compression have 74 %, and 52 % against 43
to 54 % on non-iid data. Earlier in its run, below 10 MB, it is ahead (in the picture; not judged, and rivals are
tuned for the end). Its thresholds were tuned, which gives it more settings than its rivals have, but not its eps and
b1. On iid data its rule fired in 1.2 % of uploads, near the 1 % from which a rule counts as tested (0.9 % on the
first five seeds, on which the row was not tested). FedACA's best threshold is one at which its rule fires in less
than 1 %; what is left, top-k with error feedback up, is 5 points above the best of the others at equal bytes both
ways and 25 at equal bytes up.
"""

EXPERIMENT = reproduction(
    "two-way-bits",
    """
    Accuracy against bytes, both ways

    "Bidirectional communication-efficient non-convex adaptive federated learning": Figures 1 to 20

    Six algorithms that skip, repeat or compress what they send, against FedAvg, FedAdam, FedAMS and FedCAMS,
    and our own two_way. The figures are not in the available text, only what they are said to show; traffic
    here is counted in real bytes, and the paper's claims are judged at equal bytes.
    """,
    Procedure(cells, findings, tables, pictures, grids),
    {
        "quick": (
            *compared(
                """
                data | MNIST and Fashion-MNIST, 100 clients, 50 in a round and all
                    | the same data, 20 clients, 10 in a round, all with `tuned` settings; on MNIST fewer methods
                local work | 3 epochs, batch 32 | 20 steps, batch 32
                rounds | not given | 60; with the CNN 40
                CNN | not described
                    | 5x5 convolutions of 8 and 16 channels, 128 units (37,610 parameters), Fashion-MNIST, half of the
                    clients; server rates tuned on one seed, eps and b1 as the MLP's grids chose them, thresholds too
                    or smaller; on iid data FedBACA alone
                """
            ),
            *_COMMON,
        ),
        "full": (
            *compared(
                """
                data | MNIST and Fashion-MNIST, 100 clients, 50 in a round | the same
                local work | 3 epochs, batch 32 | the same
                rounds | not given | 100
                """
            ),
            *_COMMON,
        ),
    },
    notes={"quick": QUICK},
)
