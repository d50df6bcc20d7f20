"""The CNN of the bidirectional paper, small: Figures 1 to 4 and 13 to 20.

Server rate and eps are tuned for every method, for FedACA and FedBACA the threshold, too: eighteen settings against six
for FedAdam, FedAMS and FedNLAA, in favour of the paper's claims. b1 and FedNLAA's threshold are those that the MLP's
grid chose on the same split (`B1`, `TAU_NLA`, compared with its `tuning.json` by a test). Grids are cut by rules:

- They are run on one seed.
- FedACA and FedBACA are tuned at every place, and the uncompressed methods in short runs, which are FedBACA's rivals.
- FedACA's and FedBACA's settings are run for `FIRST_ROUNDS`, the best three then for all rounds; FedBACA's all for all
  rounds where settings that lead early fall apart later (`UNSTABLE`).
- Whole runs of the others are rivals of FedACA and FedNLAA alone: their settings are chosen on Fashion-MNIST with half
  of the clients (`TUNED_AT`), for each split.
- Methods are run whose rule fires with the MLP at its choice: on iid data that leaves FedBACA.
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
    SMALLER,
    WITH_A_CNN,
    chosen_at,
    rule,
    short,
    short_grid_of,
    short_lengths,
    shortened,
    taking_part,
    tuned,
)

ROUNDS = 40
FIRST_ROUNDS = 12
SEEDS = (1000,)
TUNED_AT = {split: DataSplit("Fashion-MNIST", split, network=CNN) for split in PARTITION}
WITH_AA = ("FedACA 1/8", "FedBACA 1/8")
UNSTABLE = tuple(place for place in WITH_A_CNN if place.split == "non-iid")
METHODS: Mapping[str, tuple[str, ...]] = {
    "iid": (*BASELINES, "FedBACA 1/8"),
    "non-iid": (*BASELINES, "FedNLAA", *WITH_AA),
}
B1: Mapping[str, Mapping[str, float]] = {"iid": {"FedBACA 1/8": 0.0}, "non-iid": {}}  # elsewhere USUAL_B1
USUAL_B1 = 0.9
TAU_NLA = 0.3
THRESHOLDS: Mapping[str, tuple[float, ...]] = {
    "FedNLAA": (TAU_NLA,),
    **dict.fromkeys(WITH_AA, (0.3, 1.0, 1.5)),
}


def judged(split: str) -> list[str]:
    """The paper's methods that are run on a split."""
    return [method for method in METHODS[split] if method not in BASELINES]


def grids() -> list[Grid]:
    """Each once, though places share some."""
    every = [
        grid for place in WITH_A_CNN for method in METHODS[place.split] for grid in _grids(place, method)
    ]
    return list({grid.name: grid for grid in every}.values())


def cells(known: Results) -> list[Cell]:
    """The grids; then every place at what they chose."""
    return [
        *(cell for grid in grids() for cell in grid.cells()),
        *(cell for place in WITH_A_CNN for cell in _judged(place, known)),
    ]


def _judged(place: DataSplit, known: Results) -> list[Cell]:
    made: list[Cell] = []
    for method in METHODS[place.split]:
        whole, *few = _grids(place, method)
        if (usual := chosen_at(whole, place, known)) is not None:
            made.append(_cell(tuned(place, method), place, usual))
        for rounds, grid in zip(short_lengths(place, method), few, strict=True):
            if (algorithm := chosen_at(grid, place, known)) is not None:
                made.append(shortened(_cell(short(place, method, rounds), place, algorithm), rounds))
    return made


def _grids(place: DataSplit, method: str) -> list[Grid]:
    """The grid that a method's setting at a place is from, then those of its short runs."""
    here = _grid(place, method)
    whole = here if method in WITH_AA else _grid(TUNED_AT[place.split], method)
    return [whole, *(short_grid_of(here, place, method, rounds) for rounds in short_lengths(place, method))]


def _cell(label: str, place: DataSplit, algorithm: Algorithm) -> Cell:
    made = cell_at("quick", label, place, algorithm)
    return replace(made, rounds=ROUNDS, by_name=True)  # all of them together take hours of a core


def _grid(place: DataSplit, method: str) -> Grid:
    def cell(rate: float, others: str) -> Cell:
        label = f"grid {tuned(place, method)}, rate {rate:g}{others}"
        algorithm = taking_part(rule("quick", method, rate, others), place)
        return replace(_cell(label, place, algorithm), seeds=1)

    def begun(rate: float, others: str) -> Cell:
        return replace(cell(rate, others), rounds=FIRST_ROUNDS)

    rates = PLAIN if method == "FedAvg" else SERVER_RATES
    usual = Grid(
        tuned(place, method), rates, cell, final_accuracy(LAST), _others(place.split, method), seeds=SEEDS
    )
    if method not in WITH_AA or (method == "FedBACA 1/8" and place in UNSTABLE):
        return usual
    return replace(usual, cell=begun, merit=final_accuracy(2), judged_rounds=ROUNDS)


def _others(split: str, method: str) -> tuple[str, ...]:
    """eps, b1 and the threshold, those that a method has."""
    if method == "FedAvg":
        return ("",)
    b1 = B1[split].get(method, USUAL_B1)
    thresholds = [f", tau {tau:g}" for tau in THRESHOLDS.get(method, ())] or [""]
    return tuple(f", eps {eps:g}, b1 {b1:g}{tau}" for eps in SMALLER for tau in thresholds)
