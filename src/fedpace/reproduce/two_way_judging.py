"""two_way beside the uncompressed methods and the published two-way ones, on Fashion-MNIST and MNIST.

The procedure, written down before the judged runs were made:

1. Every uncompressed method is tuned on each split of Fashion-MNIST, on seeds that are not judged: three for the iid
   split, six for two shards, where single seeds move by two points. MNIST takes the choice of its split.
2. `two_way` has no grid of its own: it takes optimizer and rate of the best of all these uncompressed runs, and keeps
   its default codecs and memory. So it is tuned with no run more than its rivals, and none of it is compressed.
3. The published two-way methods are tuned with their own codecs, at a ratio that gives them no fewer bytes than
   `two_way`, on the first two of those seeds. So are the published methods that compress one way or none, which send
   as many bytes as `two_way` in their first rounds: they are run, and tuned, for so many.
4. All are judged once, on five seeds from `JUDGED_FROM` on, which no page has shown before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from fedpace import algorithms
from fedpace.algorithm import Algorithm
from fedpace.reproduce.cell import Cell, NamedTask
from fedpace.reproduce.results import Results
from fedpace.reproduce.tuning import Grid, final_accuracy

LAST = 3  # evaluations whose mean is a run's accuracy


@dataclass(frozen=True, slots=True)
class TaskBed:
    """A task with its length and local work."""

    task: NamedTask
    rounds: int
    work: Mapping[str, Any]


def work(client_lr: float, steps: int, batch_size: int, clients_per_round: int | None) -> dict[str, Any]:
    return locals()


SPLITS = {"iid": "iid", "two shards": "shards:2"}
PLACES = {
    f"{name}, {split}": TaskBed(NamedTask(data, partition, "mlp:64", 20), 60, work(0.05, 20, 32, 10))
    for name, data in (("Fashion-MNIST", "fashion-mnist"), ("MNIST", "mnist"))
    for split, partition in SPLITS.items()
}

Rates = Mapping[str, tuple[float, ...]]  # by what else is varied
SMALL_EPS = "FedAMS, eps 1e-7"
BY_EPS: Rates = {", eps 1e-3": (0.003, 0.01, 0.03), ", eps 1e-7": (0.001, 0.003, 0.01)}
UNCOMPRESSED: Mapping[str, Rates] = {
    "FedAvg": {"": (1.0,)},
    "FedAMS": {"": (0.03, 0.1, 0.3)},
    SMALL_EPS: {"": (0.001, 0.003, 0.01)},
    "FedAdam": BY_EPS,
    "FedYogi": BY_EPS,
}
PUBLISHED: Mapping[str, Rates] = {
    "FedBNLACA 1/24": {", eps 1e-3": (0.003, 0.01, 0.03, 0.1), ", eps 1e-7": (0.003, 0.01)},
    "FedBACA 1/24": {", eps 1e-3": (0.003, 0.01, 0.03, 0.1), ", eps 1e-7": (0.003, 0.01)},
}
ONE_WAY_ROUNDS = {"FedNLAA": 3, "FedAA": 3, "FedCAMS 1/24": 6, "FedNLACA 1/24": 6, "FedACA 1/24": 6}
FEW_ROUNDS: Rates = {", eps 1e-3": (0.1, 0.3, 1.0), ", eps 1e-7": (0.003, 0.01, 0.03)}
ONE_WAY: Mapping[str, Rates] = dict.fromkeys(ONE_WAY_ROUNDS, FEW_ROUNDS)
EVERY: Mapping[str, Rates] = {**UNCOMPRESSED, **PUBLISHED, **ONE_WAY}
TOP = {"codec": "topk:1/24"}
LINKS: Mapping[str, Mapping[str, Any]] = {
    "FedNLAA": {"tau": 0.3},
    "FedAA": {"tau": 0.3},
    "FedCAMS 1/24": TOP,
    "FedNLACA 1/24": {**TOP, "tau": 0.8},
    "FedACA 1/24": {**TOP, "tau": 0.3},
    "FedBNLACA 1/24": {**TOP, "down_codec": "topk:1/24", "tau": 0.8},
    "FedBACA 1/24": {**TOP, "down_codec": "topk:1/24", "tau": 0.3},
}
TUNED_ON = {"iid": (1000, 1001, 1002), "two shards": (1000, 1001, 1002, 1003, 1004, 1005)}
PUBLISHED_ON = (1000, 1001)
JUDGED_FROM = 2000  # pages have shown runs of the seeds 0 to 4
FULL_SIZE = {"quick": 1, "full": 5}  # times the clients, and times those of a round


# ---------------------------------------------------------------- grids


def grids(edition: str) -> list[Grid]:
    """Those of the methods on each split, and the one that two_way's server is chosen by."""
    places = [place for place in PLACES if tuned_at(place) == place]
    methods = [*UNCOMPRESSED, "two_way", *PUBLISHED, *ONE_WAY]
    return [grid_of(edition, place, method) for place in places for method in methods]


def tuned_at(place: str) -> str:
    """Where the settings of a place are chosen: Fashion-MNIST with the same split."""
    return place.replace("MNIST", "Fashion-MNIST") if place.startswith("MNIST") else place


def grid_of(edition: str, place: str, method: str) -> Grid:
    if method == "two_way":
        return _of_all(edition, place)
    return _grid(edition, place, method, {other: (method, other) for other in EVERY[method]})


def _of_all(edition: str, place: str) -> Grid:
    """Every uncompressed run of a split; a choice is named by method and eps."""
    every = {f"{method}{other}": (method, other) for method, rates in UNCOMPRESSED.items() for other in rates}
    return _grid(edition, place, "two_way", every)


def _grid(edition: str, place: str, name: str, variants: Mapping[str, tuple[str, str]]) -> Grid:
    def cell(rate: float, other: str) -> Cell | None:
        method, rest = variants[other]
        return _tried(edition, place, method, rate, rest)

    rates = sorted({rate for method, rest in variants.values() for rate in EVERY[method][rest]})
    seeds = PUBLISHED_ON if name in LINKS else TUNED_ON[place.split(", ")[1]]
    return Grid(f"{place}: {name}", tuple(rates), cell, final_accuracy(LAST), tuple(variants), seeds=seeds)


def _tried(edition: str, place: str, method: str, rate: float, other: str) -> Cell | None:
    """One setting of a grid; None where the rate is another eps's."""
    if rate not in EVERY[method][other]:
        return None
    rule = _method(edition, place, method, rate, other)
    return replace(_cell(f"rate {place}: {method} {rate:g}{other}", rule, place, method, edition), seeds=1)


def _method(edition: str, place: str, method: str, rate: float, other: str) -> Algorithm:
    given = _scaled(PLACES[place].work, edition) | ({"eps": float(other.split()[-1])} if other else {})
    if method in LINKS or method in ("FedAdam", "FedYogi"):
        make = getattr(algorithms, method.split()[0].lower())
        made: Algorithm = make(server_lr=rate, **LINKS.get(method, {}), **given)
        return made
    return uncompressed(method, rate, given)


def uncompressed(method: str, rate: float, given: Mapping[str, Any]) -> Algorithm:
    if method == "FedAvg":
        return algorithms.fedavg(server_lr=rate, **given)
    return algorithms.fedams(server_lr=rate, eps=1e-7 if method == SMALL_EPS else 1e-3, **given)


# ---------------------------------------------------------------- cells


def cells(edition: str, known: Results) -> list[Cell]:
    """The grids; then whatever has its settings."""
    tried = {cell.name: cell for grid in grids(edition) for cell in grid.cells()}
    judged = [
        replace(_cell(judging(place, method), rule, place, method, edition), first_seed=JUDGED_FROM)
        for place in PLACES
        for method, rule in _judged(edition, place, known).items()
    ]
    return [*tried.values(), *judged]


def _judged(edition: str, place: str, known: Results) -> dict[str, Algorithm]:
    """What is judged at a place, as far as its settings are known."""
    methods = ["two_way", *EVERY]
    chosen = {method: grid_of(edition, tuned_at(place), method).chosen(known) for method in methods}
    rules = {method: cell.algorithm for method, cell in chosen.items() if cell is not None}
    if (best := rules.get("two_way")) is not None:
        given = _scaled(PLACES[place].work, edition)
        rules["two_way"] = algorithms.two_way(server_opt=best.server_opt, **given)
    return rules


def _scaled(given: Mapping[str, Any], edition: str) -> dict[str, Any]:
    return {**given, "clients_per_round": FULL_SIZE[edition] * given["clients_per_round"]}


def _cell(name: str, algorithm: Algorithm, place: str, method: str, edition: str) -> Cell:
    """At full length, or for the rounds that a method has bytes for: it is then evaluated at the end alone."""
    cell = cell_of(name, algorithm, PLACES[place], edition)
    if (few := ONE_WAY_ROUNDS.get(method)) is None:
        return cell
    return replace(cell, rounds=few, evaluate_every=few)


def cell_of(name: str, algorithm: Algorithm, bed: TaskBed, edition: str) -> Cell:
    task = replace(bed.task, clients=FULL_SIZE[edition] * bed.task.clients)
    return Cell(name=name, algorithm=algorithm, task=task, rounds=bed.rounds, evaluate_every=4)


def judging(place: str, method: str) -> str:
    return f"judging {place}: {method}"
