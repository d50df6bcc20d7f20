"""two_way beside the uncompressed methods and the published two-way ones, on Fashion-MNIST and MNIST.

The procedure, written down before the judged runs were made:

1. Every uncompressed method is tuned on each split of Fashion-MNIST, on seeds that are not judged: three for the iid
   split, six for two shards, where single seeds move by two points; an optimum at the end of a grid extends it. MNIST
   takes the choice of its split: that is the rule by which the grids were cut.
2. `two_way` takes optimizer and rate of the best of all these uncompressed runs. Its uplink is chosen on eight seeds:
   entropy coding with error feedback, or dithered levels without memory, at the same bytes. The rest is its default.
   It is shown as it comes, too, for those who tune nothing.
3. The published two-way methods are tuned with their own codecs, at a ratio that gives them no fewer bytes than
   `two_way`, on the first two of those seeds. So are the published methods that compress one way or none, which send
   as many bytes as `two_way` in their first rounds: they are run, and tuned, for so many. The published two-way methods
   are also run with a threshold on the downlink, at the settings chosen without it.
4. All are judged once, on ten seeds from `JUDGED_FROM` on, which no page has shown before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

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

SMALL_EPS = "FedAMS, eps 1e-7"
EPS = (", eps 1e-3", ", eps 1e-7")


class Tried(NamedTuple):
    """The grid of a method."""

    rates: tuple[float, ...]
    others: tuple[str, ...] = EPS


UNCOMPRESSED: Mapping[str, Tried] = {
    "FedAvg": Tried((0.5, 1.0, 2.0), ("",)),
    "FedAMS": Tried((0.03, 0.1, 0.3), ("",)),
    SMALL_EPS: Tried((0.001, 0.003, 0.01), ("",)),
    "FedAdam": Tried((0.001, 0.003, 0.01, 0.03)),
    "FedYogi": Tried((0.001, 0.003, 0.01, 0.03)),
}
PUBLISHED: Mapping[str, Tried] = dict.fromkeys(
    ("FedBNLACA 1/24", "FedBACA 1/24"), Tried((0.003, 0.01, 0.03, 0.1))
)
ONE_WAY_ROUNDS = {"FedNLAA": 3, "FedAA": 3, "FedCAMS 1/24": 6, "FedNLACA 1/24": 6, "FedACA 1/24": 6}
ONE_WAY: Mapping[str, Tried] = dict.fromkeys(ONE_WAY_ROUNDS, Tried((0.003, 0.01, 0.03, 0.1, 0.3, 1.0)))
EVERY: Mapping[str, Tried] = {**UNCOMPRESSED, **PUBLISHED, **ONE_WAY}
UNTUNED = "two_way, untuned"  # as it comes
UPLINKS: Mapping[str, Mapping[str, Any]] = {
    "error feedback": {"codec": "entropy:1.59", "memory": "ef"},
    "dithered": {"codec": "dithered:1.59", "memory": "none"},
}
# of two_way: chosen, committed
SERVERS = {"iid": (0.01, SMALL_EPS), "two shards": (0.003, "FedAdam, eps 1e-7")}
DOWN = (
    ", tau_down 0.9"  # a published method whose server repeats, or adds to, the model it sent before (line 7)
)
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
UPLINK_ON = tuple(range(1000, 1008))
JUDGED_FROM = 3000  # pages have shown runs of the seeds 0 to 4 and 2000 to 2004
FULL_SIZE = {"quick": 1, "full": 5}  # times the clients, and times those of a round


# ---------------------------------------------------------------- grids


def grids(edition: str) -> list[Grid]:
    """Those of the methods on each split, and those that two_way's server and uplink are chosen by."""
    places = [place for place in PLACES if tuned_at(place) == place]
    methods = [*UNCOMPRESSED, "two_way", "uplink", *PUBLISHED, *ONE_WAY]
    return [grid_of(edition, place, method) for place in places for method in methods]


def tuned_at(place: str) -> str:
    """Where the settings of a place are chosen: Fashion-MNIST with the same split."""
    return place.replace("MNIST", "Fashion-MNIST") if place.startswith("MNIST") else place


def grid_of(edition: str, place: str, method: str) -> Grid:
    if method == "two_way":
        return _of_all(edition, place)
    if method == "uplink":
        return _uplinks(edition, place)
    tried = EVERY[method]

    def cell(rate: float, other: str) -> Cell:
        return _tried(edition, place, method, rate, other)

    seeds = PUBLISHED_ON if method in LINKS else TUNED_ON[_split(place)]
    return Grid(f"{place}: {method}", tried.rates, cell, final_accuracy(LAST), tried.others, seeds=seeds)


def _split(place: str) -> str:
    return place.split(", ")[1]


def _of_all(edition: str, place: str) -> Grid:
    """Every uncompressed run of a split; a choice is named by method and eps."""
    every = {
        f"{method}{other}": (method, other)
        for method, tried in UNCOMPRESSED.items()
        for other in tried.others
    }

    def cell(rate: float, named: str) -> Cell | None:
        method, other = every[named]
        return _tried(edition, place, method, rate, other) if rate in UNCOMPRESSED[method].rates else None

    rates = sorted({rate for tried in UNCOMPRESSED.values() for rate in tried.rates})
    seeds = TUNED_ON[_split(place)]
    return Grid(f"{place}: two_way", tuple(rates), cell, final_accuracy(LAST), tuple(every), seeds=seeds)


def _uplinks(edition: str, place: str) -> Grid:
    """two_way with each uplink, at the server that was chosen before."""
    server, method = SERVERS[_split(place)]
    given = _scaled(PLACES[place].work, edition)

    def cell(rate: float, uplink: str) -> Cell | None:
        if rate != server:
            return None
        opt = _method(edition, place, *_named(method), rate).server_opt
        rule = algorithms.two_way(server_opt=opt, **UPLINKS[uplink], **given)
        return replace(_cell(f"uplink {place}: {uplink}", rule, place, "two_way", edition), seeds=1)

    return Grid(f"{place}: uplink", (server,), cell, final_accuracy(LAST), tuple(UPLINKS), seeds=UPLINK_ON)


def _named(server: str) -> tuple[str, str]:
    """Method and eps of an uncompressed setting."""
    return next(
        (method, other)
        for method, tried in UNCOMPRESSED.items()
        for other in tried.others
        if server == f"{method}{other}"
    )


def _tried(edition: str, place: str, method: str, rate: float, other: str) -> Cell:
    """One setting of a grid."""
    rule = _method(edition, place, method, other, rate)
    return replace(_cell(f"rate {place}: {method} {rate:g}{other}", rule, place, method, edition), seeds=1)


def _method(edition: str, place: str, method: str, other: str, rate: float) -> Algorithm:
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
        replace(
            _cell(judging(place, method), rule, place, method, edition),
            first_seed=JUDGED_FROM,
            by_name=method == UNTUNED or method.endswith(DOWN),
        )
        for place in PLACES
        for method, rule in _judged(edition, place, known).items()
    ]
    return [*tried.values(), *judged]


def _judged(edition: str, place: str, known: Results) -> dict[str, Algorithm]:
    """What is judged at a place, as far as its settings are known."""
    chosen = {method: grid_of(edition, tuned_at(place), method).chosen(known) for method in EVERY}
    chosen["two_way"] = grid_of(edition, tuned_at(place), "uplink").chosen(known)
    rules = {method: cell.algorithm for method, cell in chosen.items() if cell is not None}
    lazy_down = {
        f"{method}{DOWN}": replace(rules[method], down=replace(rules[method].down, tau=0.9, max_staleness=10))
        for method in PUBLISHED
        if method in rules
    }
    untuned = {UNTUNED: algorithms.two_way(**_scaled(PLACES[place].work, edition))}
    return untuned | rules | lazy_down


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
