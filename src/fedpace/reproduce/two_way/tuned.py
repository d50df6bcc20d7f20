"""Every method compared with the bidirectional paper's at its own best: server rate, eps, b1, threshold.

Settings are chosen on Fashion-MNIST with half of the clients in a round, for each split; MNIST and full participation
take the choice of their split. That is the rule by which the grid was cut.

Methods are compared at equal bytes, and in the quick edition an uncompressed one has sent in ten rounds what FedBACA
sends in sixty. So rivals are tuned for short runs too (`SHORT_RUNS`), for the accuracy at their end.

Figures 5 to 12 of the paper have one place each, NLA on the left and AA on the right: one family of claims.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from fedpace import algorithms
from fedpace.algorithm import Algorithm
from fedpace.pace import Rounds
from fedpace.reproduce.cell import Cell
from fedpace.reproduce.results import Results
from fedpace.reproduce.tuning import Grid, final_accuracy
from fedpace.reproduce.two_way.cells import (
    BASELINES,
    CNN,
    DATA,
    EIGHT,
    LAST,
    PAGE,
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
    *(DataSplit(data, split, ALL) for data in DATA for split in PARTITION),
)
WITH_A_CNN = tuple(place._replace(network=CNN) for place in EVERYWHERE)
FIGURES = {  # the paper's
    DataSplit(data, split, participation, network): f"Figure {first + 2 * at + (participation == ALL)}"
    for (data, network), first in {
        ("MNIST", ""): 5,
        ("Fashion-MNIST", ""): 9,
        ("MNIST", CNN): 13,
        ("Fashion-MNIST", CNN): 17,
    }.items()
    for at, split in enumerate(PARTITION)
    for participation in ("", ALL)
} | {
    DataSplit("Fashion-MNIST", "iid", network=CNN): "Figures 1, 2, 17",
    DataSplit("Fashion-MNIST", "non-iid", network=CNN): "Figures 3, 4, 19",
}
SERVER_RATES = (0.03, 0.1, 0.3)  # for eps = 1e-3
SMALLER = {1e-3: 1.0, 1e-7: 0.1}  # factor of the rates by eps: below 1e-5 or so steps adapt, and are larger
MOMENTA = (0.9, 0.0)  # b1
# up to 2**0.5, the relative distance of orthogonal updates, or a little past it
THRESHOLDS = {
    "FedNLAA": (0.3, 0.5, 0.8, 1.0, 1.2, 1.4),
    "FedAA": (0.1, 0.3, 0.6),
    "FedNLACA 1/8": (0.5, 0.8, 1.0, 1.2, 1.4),
    "FedACA 1/8": (0.3, 0.6, 1.0, 1.2, 1.5),
    "FedBACA 1/8": (0.3, 0.6, 1.0, 1.2, 1.5),
    "FedBNLACA 1/8": (0.5, 0.8, 1.0, 1.2, 1.4),
}
TUNED = (*BASELINES, *THRESHOLDS, "FedCAMS 1/8", "two_way 1/8")
BESIDE = ("FedAA", "FedBNLACA 1/8", "two_way 1/8")  # with all clients no claim is about them
PLAIN = (0.5, 1.0)  # server rates of FedAvg
FEDACA = "FedACA 1/8"
UNEVEN = tuple(place for place in EVERYWHERE if place.split == "non-iid")  # where FedACA's rule fires
TIMED = tuple(place for place in PLACES if place.data == "Fashion-MNIST")  # where seconds are judged
NOT_EVERYWHERE = {"FedNLACA 1/8": TIMED}  # the only places where a claim is about it


class ShortRuns(NamedTuple):
    """Rivals that are tuned for so many rounds, after which they have spent the budget of another method."""

    rounds: int
    rivals: tuple[str, ...]
    places: tuple[DataSplit, ...]
    reason: str


SHORT_RUNS = (
    ShortRuns(10, BASELINES, EVERYWHERE, "Uncompressed rivals have sent FedBACA's bytes, and FedACA's up."),
    ShortRuns(7, BASELINES, WITH_A_CNN, "The same with the CNN, in 40 rounds of FedBACA."),
    ShortRuns(22, BASELINES, TIMED, "Uncompressed rivals have used FedBACA's seconds on a slow link."),
    ShortRuns(36, BASELINES, UNEVEN, "Uncompressed rivals have sent FedACA's bytes both ways."),
    ShortRuns(18, (FEDACA,), UNEVEN, "FedACA, as a rival, has sent FedBACA's bytes both ways."),
)


def short_lengths(place: DataSplit, method: str) -> tuple[int, ...]:
    """The short runs that a method is tuned for, beside the usual one."""
    return tuple(each.rounds for each in SHORT_RUNS if method in each.rivals and place in each.places)


def cells(edition: str, known: Results) -> list[Cell]:
    """The grids; then every place at the choice of its split."""
    every = {(split, method): _grid(edition, split, method) for split in PARTITION for method in TUNED}
    return [
        *(cell for grid in grids(edition) for cell in grid.cells()),
        *(
            replace(
                cell_at(edition, tuned(place, method), place, made),
                by_name=place.participation == ALL and method in BESIDE,
            )
            for method in TUNED
            for place in NOT_EVERYWHERE.get(method, EVERYWHERE)
            if (made := chosen_at(every[place.split, method], place, known)) is not None
        ),
        *(
            shortened(cell_at(edition, short(place, method, rounds), place, made), rounds)
            for place in EVERYWHERE
            for method in TUNED
            for rounds in short_lengths(place, method)
            if edition == "quick"
            and (made := chosen_at(_short_grid(place.split, method, rounds), place, known)) is not None
        ),
    ]


def grids(edition: str) -> list[Grid]:
    return [
        *(_grid(edition, split, method) for split in PARTITION for method in TUNED),
        *(
            _short_grid(split, method, rounds)
            for split in PARTITION
            for method in TUNED
            for rounds in short_lengths(DataSplit("Fashion-MNIST", split), method)
            if edition == "quick"
        ),
    ]


def _grid(edition: str, split: str, method: str) -> Grid:
    place = DataSplit("Fashion-MNIST", split)

    def cell(rate: float, others: str) -> Cell:
        label = f"grid {tuned(place, method)}, rate {rate:g}{others}"
        return replace(cell_at(edition, label, place, rule(edition, method, rate, others)), seeds=1)

    rates = PLAIN if method == "FedAvg" else SERVER_RATES
    return Grid(tuned(place, method), rates, cell, final_accuracy(LAST), _others(method))


def _short_grid(split: str, method: str, rounds: int) -> Grid:
    return short_grid_of(_grid("quick", split, method), DataSplit("Fashion-MNIST", split), method, rounds)


def short_grid_of(usual: Grid, place: DataSplit, method: str, rounds: int) -> Grid:
    """The same settings, by what they reach in a short run."""

    def cell(rate: float, others: str) -> Cell | None:
        made = usual.cell(rate, others)
        return (
            None if made is None else shortened(replace(made, name=f"{made.name}, {rounds} rounds"), rounds)
        )

    return replace(usual, name=short(place, method, rounds), cell=cell, merit=final_accuracy(2))


def shortened(cell: Cell, rounds: int) -> Cell:
    return replace(cell, rounds=rounds, evaluate_every=1)


def _others(method: str) -> tuple[str, ...]:
    """eps, b1 and the threshold, those that a method has."""
    if method == "FedAvg":
        return ("",)
    thresholds = [f", tau {tau:g}" for tau in THRESHOLDS.get(method, ())] or [""]
    return tuple(f", eps {eps:g}, b1 {b1:g}{tau}" for eps in SMALLER for b1 in MOMENTA for tau in thresholds)


def rule(edition: str, method: str, rate: float, others: str) -> Algorithm:
    given = {word: float(value) for word, value in (part.split() for part in others.split(", ")[1:])}
    work: dict[str, Any] = SCALES[edition].work
    if method == "FedAvg":
        return algorithms.fedavg(server_lr=rate, **work)
    make = getattr(algorithms, method.split()[0].lower())
    chosen = {**_links(method), **given}
    made: Algorithm = make(server_lr=rate * SMALLER[given["eps"]], **chosen, **work)
    return made


def _links(method: str) -> dict[str, Any]:
    """What a method is beside its rates and threshold."""
    if method in (*BASELINES, "FedNLAA", "FedAA"):
        return {}
    both_ways = method.startswith(("FedB", "two_way"))
    codecs = {"codec": EIGHT, "down_codec": EIGHT} if both_ways else {"codec": EIGHT}
    return {**codecs, **PAGE} if method.startswith("two_way") else codecs


def chosen_at(grid: Grid, place: DataSplit, known: Results) -> Algorithm | None:
    """The setting that a grid chose, at one of its split's places."""
    chosen = grid.chosen(known)
    return None if chosen is None else taking_part(chosen.algorithm, place)


def taking_part(algorithm: Algorithm, place: DataSplit) -> Algorithm:
    """With all clients in a round where a place has them."""
    return replace(algorithm, pace=Rounds()) if place.participation == ALL else algorithm


def tuned(place: DataSplit, method: str) -> str:
    return f"tuned {name_of(place, method)}"


def short(place: DataSplit, method: str, rounds: int) -> str:
    return f"{tuned(place, method)}, {rounds} rounds"


def ran(results: Results, place: DataSplit, *methods: str) -> dict[str, str]:
    """The cells that are compared: the tuned ones where all of these methods have one, else those of the first version.

    A tuned method is never compared with one that is not.
    """
    best = {method: tuned(place, method) for method in methods}
    return best if results.have(*best.values()) else {method: name_of(place, method) for method in methods}


def missing(results: Results, place: DataSplit, *methods: str) -> bool:
    return not results.have(*ran(results, place, *methods).values())
