"""Every method of the bidirectional paper at its own best: server rate, eps, b1, threshold; and full participation.

Settings are chosen on Fashion-MNIST with half of the clients in a round, for each split; MNIST and full participation
take the choice of their split. That is the rule by which the grid was cut.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fedpace import algorithms
from fedpace.algorithm import Algorithm
from fedpace.pace import Rounds
from fedpace.reproduce.cell import Cell
from fedpace.reproduce.results import Results
from fedpace.reproduce.tuning import Grid, final_accuracy
from fedpace.reproduce.two_way_cells import (
    BASELINES,
    EIGHT,
    LAST,
    PARTITION,
    PLACES,
    SCALES,
    DataSplit,
    cell_at,
    name_of,
)

ALL = "all clients"
EVERYWHERE: tuple[DataSplit, ...] = (
    *PLACES,
    *(DataSplit("Fashion-MNIST", split, ALL) for split in PARTITION),
)
SERVER_RATES = (0.03, 0.1, 0.3)  # for eps = 1e-3
SMALLER = {1e-3: 1.0, 1e-7: 0.1}  # factor of the rates by eps: below 1e-5 or so steps adapt, and are larger
MOMENTA = (0.9, 0.0)  # b1
THRESHOLDS = {"FedNLAA": (0.3, 0.5), "FedACA 1/8": (0.3, 0.6), "FedBACA 1/8": (0.3, 0.6)}
TUNED = (*BASELINES, *THRESHOLDS)
PLAIN = (0.5, 1.0)  # server rates of FedAvg


def cells(edition: str, known: Results) -> list[Cell]:
    """The grids; then every place at the choice of its split."""
    chosen = {
        (split, method): _grid(edition, split, method).chosen(known)
        for split in PARTITION
        for method in TUNED
    }
    return [
        *(cell for grid in grids(edition) for cell in grid.cells()),
        *(
            _at(edition, place, method, made)
            for place in EVERYWHERE
            for method in TUNED
            if (made := chosen[place.split, method]) is not None
        ),
    ]


def grids(edition: str) -> list[Grid]:
    return [_grid(edition, split, method) for split in PARTITION for method in TUNED]


def _grid(edition: str, split: str, method: str) -> Grid:
    place = DataSplit("Fashion-MNIST", split)

    def cell(rate: float, others: str) -> Cell:
        label = f"grid {tuned(place, method)}, rate {rate:g}{others}"
        return replace(cell_at(edition, label, place, _rule(edition, method, rate, others)), seeds=1)

    rates = PLAIN if method == "FedAvg" else SERVER_RATES
    return Grid(tuned(place, method), rates, cell, final_accuracy(LAST), _others(method))


def _others(method: str) -> tuple[str, ...]:
    """eps, b1 and the threshold, those that a method has."""
    if method == "FedAvg":
        return ("",)
    thresholds = [f", tau {tau:g}" for tau in THRESHOLDS.get(method, ())] or [""]
    return tuple(f", eps {eps:g}, b1 {b1:g}{tau}" for eps in SMALLER for b1 in MOMENTA for tau in thresholds)


def _rule(edition: str, method: str, rate: float, others: str) -> Algorithm:
    given = {word: float(value) for word, value in (part.split() for part in others.split(", ")[1:])}
    work: dict[str, Any] = SCALES[edition].work
    if method == "FedAvg":
        return algorithms.fedavg(server_lr=rate, **work)
    links: dict[str, Any] = {} if method in (*BASELINES, "FedNLAA") else {"codec": EIGHT}
    if method.startswith("FedBACA"):
        links["down_codec"] = EIGHT
    make = getattr(algorithms, method.split()[0].lower())
    made: Algorithm = make(server_lr=rate * SMALLER[given["eps"]], **given, **links, **work)
    return made


def _at(edition: str, place: DataSplit, method: str, chosen: Cell) -> Cell:
    """A chosen setting at another place, for every seed."""
    rule = chosen.algorithm
    if place.participation == ALL:
        rule = replace(rule, pace=Rounds())
    return cell_at(edition, tuned(place, method), place, rule)


def tuned(place: DataSplit, method: str) -> str:
    return f"tuned {name_of(place, method)}"


def ran(results: Results, place: DataSplit, method: str) -> str:
    """The tuned cell where all of the place's were run, else that of the first version."""
    return (tuned if results.have(*(tuned(place, each) for each in TUNED)) else name_of)(place, method)


def missing(results: Results, place: DataSplit, *methods: str) -> bool:
    return not results.have(*(ran(results, place, method) for method in methods))
