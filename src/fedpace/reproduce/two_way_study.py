"""The defaults of two_way: chosen on tasks of their own, then judged on those of the pages.

*Tuning* varies one parameter of `two_way` at a time around `BASE`, on data that no page shows. *Judging* runs the
defaults, the uncompressed methods and the published one on Fashion-MNIST and MNIST, each at the best of its server
rates: `--tune` chooses them for each split of Fashion-MNIST on seeds that are not judged, and MNIST takes the choice of
its split. *Laziness* runs the lazy uplink with half and with all of the clients in a round.

The quick edition is cut to about an hour of one core: every parameter on the synthetic task, the codecs alone on the
others.
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

Settings = Mapping[str, Any]
LAST = 3  # evaluations whose mean is a run's accuracy


@dataclass(frozen=True, slots=True)
class TaskBed:
    """A task with its length and local work."""

    task: NamedTask
    rounds: int
    work: Mapping[str, Any]


def _work(client_lr: float, steps: int, batch_size: int, clients_per_round: int | None) -> dict[str, Any]:
    return locals()


SYNTHETIC = NamedTask("synthetic", "natural", "mlp:64", 30)
TUNING = {
    "synthetic": TaskBed(SYNTHETIC, 60, _work(0.05, 20, 10, 10)),
    "Shakespeare": TaskBed(NamedTask("shakespeare", "natural", "gru:32", 20), 40, _work(1.0, 10, 10, 10)),
    "CIFAR-10": TaskBed(NamedTask("cifar10", "dirichlet:0.5", "mlp:32", 20), 40, _work(0.05, 20, 32, 10)),
}
SMALL_PICTURES = TaskBed(NamedTask("cifar10", "dirichlet:0.5", "cnn_ca2fl", 20), 60, _work(0.05, 20, 32, 10))
DIGITS = NamedTask("digits", "iid", "mlp", 20)
LAZINESS = {
    "digits, all clients": TaskBed(DIGITS, 120, _work(0.1, 10, 10, None)),
    "digits, half of the clients": TaskBed(DIGITS, 120, _work(0.1, 10, 10, 10)),
    "synthetic, all clients": TaskBed(SYNTHETIC, 60, _work(0.05, 20, 10, None)),
    "synthetic, half of the clients": TaskBed(SYNTHETIC, 60, _work(0.05, 20, 10, 15)),
}
SPLITS = {"iid": "iid", "two shards": "shards:2"}
PLACES = {
    f"{name}, {split}": TaskBed(NamedTask(data, partition, "mlp:64", 20), 60, _work(0.05, 20, 32, 10))
    for name, data in (("Fashion-MNIST", "fashion-mnist"), ("MNIST", "mnist"))
    for split, partition in SPLITS.items()
}

BASE: Settings = {
    "codec": "entropy:1.59",
    "down_codec": "dithered:1.59",
    "per_tensor": True,
    "b1": 0.9,
    "server_lr": 0.005,
    "eps": 1e-7,
    "memory": "ef",
    "tau": 0.0,
}
FORMER = "octaves up, ternary down"
CODECS: Mapping[str, Settings] = {
    "base": {},
    FORMER: {"codec": "octaves:1/4", "down_codec": "ternary:1/2"},
    "dithered both ways": {"codec": "dithered:1.59"},
    "dithered both ways, no memory": {"codec": "dithered:1.59", "memory": "none"},
    "entropy both ways": {"down_codec": "entropy:1.59"},
}
VARIED: Mapping[str, Settings] = {
    **CODECS,
    "server_lr 0.003": {"server_lr": 0.003},
    "server_lr 0.01": {"server_lr": 0.01},
    "b1 0": {"b1": 0.0},
    "b1 0.5": {"b1": 0.5},
    "eps 1e-3, server_lr 0.1": {"eps": 1e-3, "server_lr": 0.1},
    "eps 1e-3, server_lr 0.3": {"eps": 1e-3, "server_lr": 0.3},
    "eps 1e-5": {"eps": 1e-5},
    "eps 1e-9": {"eps": 1e-9},
    "0.8 bits both ways": {"codec": "entropy:0.8", "down_codec": "dithered:0.8"},
    "3.2 bits both ways": {"codec": "entropy:3.2", "down_codec": "dithered:3.2"},
    "top-k 1/24 both ways": {"codec": "topk:1/24", "down_codec": "topk:1/24"},
    "sign both ways": {"codec": "sign", "down_codec": "sign"},
    "sign down": {"down_codec": "sign"},
    "flat": {"per_tensor": False},
    "EF21": {"memory": "ef21"},
}
LAZY: Mapping[str, Settings] = {"never": {}, "lazy 1.2": {"tau": 1.2}}
ADAPTIVE = "FedAMS, eps 1e-7"
BASELINES = {"FedAvg": (1.0,), "FedAMS": (0.1, 0.3), ADAPTIVE: (0.003, 0.01, 0.03)}
PUBLISHED = "FedBNLACA 1/24"
WITH_ADAM = "two_way, Adam"  # the server optimizer of FedAdam, with its settings
RATES = {
    "two_way": (0.003, 0.01),
    ADAPTIVE: (0.003, 0.01),
    "FedAMS": (0.1, 0.3),
    "FedAdam": (0.003, 0.01, 0.03),
    PUBLISHED: (0.03, 0.1),
}
ADAM_EPS = (", eps 1e-3", ", eps 1e-7")
UNCOMPRESSED = (ADAPTIVE, "FedAMS", "FedAdam")
FULL_SIZE = {"quick": 1, "full": 5}  # times the clients, and times those of a round


# ---------------------------------------------------------------- cells


def cells(edition: str, known: Results) -> list[Cell]:
    """The tuning and the lazy uplinks; the grids of rates; then whatever has a rate."""
    every = [cell for bed in beds(edition) for cell in _tuning(edition, bed)]
    every += [cell for bed in LAZINESS for cell in _laziness(bed)]
    every += [cell for grid in grids(edition) for cell in grid.cells()]
    for place in PLACES:
        every += [
            _cell(judging(place, method), rule, PLACES[place], edition)
            for method, rule in _judged(edition, place, known).items()
        ]
    return every


def _judged(edition: str, place: str, known: Results) -> dict[str, Algorithm]:
    """What is judged at a place, as far as its settings are known."""
    chosen = {method: grid_of(edition, tuned_at(place), method).chosen(known) for method in RATES}
    rules = {method: cell.algorithm for method, cell in chosen.items() if cell is not None}
    if (adam := rules.get("FedAdam")) is not None:
        work = _scaled(PLACES[place].work, edition)
        rules[WITH_ADAM] = algorithms.two_way(**{**BASE, **work}, server_opt=adam.server_opt)
    return rules


def grids(edition: str) -> list[Grid]:
    """The server rates of every method on each split."""
    places = dict.fromkeys(map(tuned_at, PLACES))
    return [grid_of(edition, place, method) for place in places for method in RATES]


def tuned_at(place: str) -> str:
    """Where the rates of a place are chosen: Fashion-MNIST with the same split."""
    return place.replace("MNIST", "Fashion-MNIST") if place.startswith("MNIST") else place


def grid_of(edition: str, place: str, method: str) -> Grid:
    def cell(rate: float, other: str) -> Cell:
        rule = _method(edition, place, method, rate, other)
        return replace(
            _cell(f"rate {place}: {method} {rate:g}{other}", rule, PLACES[place], edition), seeds=1
        )

    others = ADAM_EPS if method == "FedAdam" else ("",)
    return Grid(f"{place}: {method}", RATES[method], cell, final_accuracy(LAST), others)


def beds(edition: str) -> dict[str, TaskBed]:
    return TUNING | ({"CIFAR-10": SMALL_PICTURES} if edition == "full" else {})


def tuned(edition: str, name: str) -> dict[str, Algorithm]:
    """What is run on a tuning task, by its label; quick, the codecs alone but on the synthetic task."""
    work = beds(edition)[name].work
    whole = edition == "full" or name == "synthetic"
    baselines = {
        f"{method} {rate:g}": _uncompressed(method, rate, work)
        for method, rates in BASELINES.items()
        for rate in (rates if whole else rates[:2])
        if whole or method == ADAPTIVE
    }
    varied = VARIED if whole else CODECS
    return baselines | {
        label: algorithms.two_way(**{**BASE, **given, **work}) for label, given in varied.items()
    }


def _tuning(edition: str, name: str) -> list[Cell]:
    bed = beds(edition)[name]
    made = [_cell(tuning(name, label), rule, bed, "quick") for label, rule in tuned(edition, name).items()]
    return made if edition == "full" or name == "synthetic" else [replace(cell, seeds=1) for cell in made]


def _laziness(name: str) -> list[Cell]:
    bed = LAZINESS[name]
    rules = {label: algorithms.two_way(**{**BASE, **given, **bed.work}) for label, given in LAZY.items()}
    return [_cell(laziness(name, label), rule, bed, "quick") for label, rule in rules.items()]


def _method(edition: str, place: str, method: str, rate: float, other: str) -> Algorithm:
    work = _scaled(PLACES[place].work, edition)
    if method == "two_way":
        return algorithms.two_way(**{**BASE, **work, "server_lr": rate})
    if method == PUBLISHED:
        top = "topk:1/24"
        return algorithms.fedbnlaca(server_lr=rate, codec=top, down_codec=top, tau=0.8, **work)
    if method == "FedAdam":
        return algorithms.fedadam(server_lr=rate, eps=float(other.split()[-1]), **work)
    return _uncompressed(method, rate, work)


def _uncompressed(method: str, rate: float, work: Settings) -> Algorithm:
    if method == "FedAvg":
        return algorithms.fedavg(server_lr=rate, **work)
    return algorithms.fedams(server_lr=rate, eps=1e-7 if method == ADAPTIVE else 1e-3, **work)


def _scaled(work: Settings, edition: str) -> dict[str, Any]:
    return {**work, "clients_per_round": FULL_SIZE[edition] * work["clients_per_round"]}


def _cell(name: str, algorithm: Algorithm, bed: TaskBed, edition: str) -> Cell:
    task = replace(bed.task, clients=FULL_SIZE[edition] * bed.task.clients)
    return Cell(name=name, algorithm=algorithm, task=task, rounds=bed.rounds, evaluate_every=4)


def tuning(bed: str, label: str) -> str:
    return f"tuning {bed}: {label}"


def judging(place: str, method: str) -> str:
    return f"judging {place}: {method}"


def laziness(bed: str, label: str) -> str:
    return f"laziness {bed}: {label}"
