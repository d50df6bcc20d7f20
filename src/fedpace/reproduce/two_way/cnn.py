"""The CNN of the bidirectional paper, small: Figures 1 to 4 and 13 to 20.

Grids are cut by rules. Settings are chosen on Fashion-MNIST with half of the clients in a round, for each split; MNIST
and full participation take the choice of their split, as with the MLP. Server rates are tuned for every method, on one
seed; eps, b1 and the threshold are those that the MLP's grid chose on the same split (`CHOSEN`, compared with its
`tuning.json` by a test); rivals in short runs are tuned with both b1. FedBACA came out weak at those thresholds (50 %
on non-iid data), so AA has smaller ones in its grid, too: three settings for FedAdam and FedAMS against nine for FedACA
and FedBACA, in favour of the paper's claims. The added ones stop at a rate of 0.1. Methods are run whose rule fires
with the MLP at that choice: on iid data that leaves FedBACA.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fedpace.algorithm import Algorithm
from fedpace.reproduce.cell import Cell
from fedpace.reproduce.results import Results
from fedpace.reproduce.tuning import Grid, final_accuracy
from fedpace.reproduce.two_way.cells import BASELINES, CNN, LAST, PARTITION, DataSplit, cell_at
from fedpace.reproduce.two_way.tuned import (
    PLAIN,
    SERVER_RATES,
    WITH_A_CNN,
    chosen_at,
    rule,
    short,
    short_grid_of,
    short_lengths,
    shortened,
    tuned,
)

ROUNDS = 40
SEEDS = (1000,)
THRESHOLDS = (0.3, 0.6, 1.0)  # of AA, beside the one that the MLP's grid chose
TUNED_AT = {split: DataSplit("Fashion-MNIST", split, network=CNN) for split in PARTITION}
CHOSEN: Mapping[str, Mapping[str, str]] = {
    "iid": {
        "FedAvg": "",
        "FedAdam": ", eps 0.001, b1 0.9",
        "FedAMS": ", eps 1e-07, b1 0.9",
        "FedBACA 1/8": ", eps 0.001, b1 0, tau 1.2",
    },
    "non-iid": {
        "FedAvg": "",
        "FedAdam": ", eps 1e-07, b1 0.9",
        "FedAMS": ", eps 1e-07, b1 0.9",
        "FedNLAA": ", eps 1e-07, b1 0.9, tau 0.3",
        "FedACA 1/8": ", eps 1e-07, b1 0.9, tau 1.2",
        "FedBACA 1/8": ", eps 1e-07, b1 0.9, tau 1.5",
    },
}
IN_SHORT_RUNS = (", eps 1e-07, b1 0.9", ", eps 1e-07, b1 0")  # the MLP's rivals chose this eps for ten rounds


def judged(split: str) -> list[str]:
    """The paper's methods that are run on a split."""
    return [method for method in CHOSEN[split] if method not in BASELINES]


def grids() -> list[Grid]:
    return [
        *(_grid(split, method) for split in PARTITION for method in CHOSEN[split]),
        *(
            _short_grid(split, method, rounds)
            for split in PARTITION
            for method in CHOSEN[split]
            for rounds in short_lengths(TUNED_AT[split], method)
        ),
    ]


def cells(known: Results) -> list[Cell]:
    """The grids; then every place at the choice of its split."""
    return [
        *(cell for grid in grids() for cell in grid.cells()),
        *(cell for place in WITH_A_CNN for cell in _judged(place, known)),
    ]


def _judged(place: DataSplit, known: Results) -> list[Cell]:
    made: list[Cell] = []
    for method in CHOSEN[place.split]:
        if (usual := chosen_at(_grid(place.split, method), place, known)) is not None:
            made.append(_cell(tuned(place, method), place, usual))
        for rounds in short_lengths(place, method):
            few = chosen_at(_short_grid(place.split, method, rounds), place, known)
            if few is not None:
                made.append(shortened(_cell(short(place, method, rounds), place, few), rounds))
    return made


def _cell(label: str, place: DataSplit, algorithm: Algorithm) -> Cell:
    made = cell_at("quick", label, place, algorithm)
    return replace(made, rounds=ROUNDS, by_name=True)  # all of them together take hours of a core


def _grid(split: str, method: str) -> Grid:
    place, (_, *added) = TUNED_AT[split], _others(split, method)

    def cell(rate: float, others: str) -> Cell | None:
        if others in added and rate > 0.1:
            return None
        label = f"grid {tuned(place, method)}, rate {rate:g}{others}"
        return replace(_cell(label, place, rule("quick", method, rate, others)), seeds=1)

    rates = PLAIN if method == "FedAvg" else SERVER_RATES
    return Grid(tuned(place, method), rates, cell, final_accuracy(LAST), _others(split, method), seeds=SEEDS)


def _others(split: str, method: str) -> tuple[str, ...]:
    """What the MLP's grid chose; then the same with other thresholds."""
    chosen = CHOSEN[split][method]
    if method not in ("FedACA 1/8", "FedBACA 1/8"):
        return (chosen,)
    before, _ = chosen.split(", tau ")
    return (chosen, *(f"{before}, tau {tau:g}" for tau in THRESHOLDS))


def _short_grid(split: str, method: str, rounds: int) -> Grid:
    made = short_grid_of(_grid(split, method), TUNED_AT[split], method, rounds)
    return replace(made, others=IN_SHORT_RUNS) if method in ("FedAdam", "FedAMS") else made
