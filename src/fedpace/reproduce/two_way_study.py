"""The defaults of two_way: chosen on tasks of their own, then judged on those of the pages.

*Tuning* varies one parameter of `two_way` at a time around `BASE`, on data that no page shows. *Judging* runs the
defaults and the best uncompressed method on Fashion-MNIST and MNIST, each at the best of its server rates; rates are
chosen on splits and seeds that are not among the judged ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from fedpace import algorithms
from fedpace.algorithm import Algorithm
from fedpace.compute import Task
from fedpace.reproduce.cell import Cell, NamedTask, TaskMaker
from fedpace.reproduce.results import Results

Settings = Mapping[str, Any]
APART = 1000  # between the seeds that rates are chosen with and those that are judged
LAST = 3  # evaluations whose mean is a run's accuracy


@dataclass(frozen=True, slots=True)
class TaskBed:
    """A task with its length and local work."""

    task: NamedTask
    rounds: int
    work: Mapping[str, Any]


def _work(client_lr: float, steps: int, batch_size: int, clients_per_round: int) -> dict[str, Any]:
    return locals()


TUNING = {
    "synthetic": TaskBed(NamedTask("synthetic", "natural", "mlp:64", 30), 60, _work(0.05, 20, 10, 10)),
    "Shakespeare": TaskBed(NamedTask("shakespeare", "natural", "gru:32", 20), 40, _work(1.0, 10, 10, 10)),
}
SMALL_PICTURES = TaskBed(NamedTask("cifar10", "dirichlet:0.5", "cnn_ca2fl", 20), 60, _work(0.05, 20, 32, 10))
PLACES = {
    f"{name}, {split}": TaskBed(NamedTask(data, partition, "mlp:64", 20), 60, _work(0.05, 20, 32, 10))
    for name, data in (("Fashion-MNIST", "fashion-mnist"), ("MNIST", "mnist"))
    for split, partition in (("iid", "iid"), ("two shards", "shards:2"))
}

BASE: Settings = {
    "codec": "octaves:1/4",
    "down_codec": "ternary:1/2",
    "per_tensor": True,
    "b1": 0.9,
    "server_lr": 0.005,
    "eps": 1e-7,
    "memory": "ef",
    "tau": 0.0,
}
VARIED: Mapping[str, Settings] = {
    "base": {},
    "server_lr 0.003": {"server_lr": 0.003},
    "server_lr 0.01": {"server_lr": 0.01},
    "b1 0": {"b1": 0.0},
    "b1 0.5": {"b1": 0.5},
    "eps 1e-3, server_lr 0.1": {"eps": 1e-3, "server_lr": 0.1},
    "eps 1e-3, server_lr 0.3": {"eps": 1e-3, "server_lr": 0.3},
    "eps 1e-5": {"eps": 1e-5},
    "eps 1e-9": {"eps": 1e-9},
    "top-k 1/24 both ways": {"codec": "topk:1/24", "down_codec": "topk:1/24"},
    "top-k 1/64 both ways": {"codec": "topk:1/64", "down_codec": "topk:1/64"},
    "sign both ways": {"codec": "sign", "down_codec": "sign"},
    "ternary 1/4 both ways": {"codec": "ternary:1/4", "down_codec": "ternary:1/4"},
    "octaves 1/8 both ways": {"codec": "octaves:1/8", "down_codec": "octaves:1/8"},
    "sign down": {"down_codec": "sign"},
    "octaves 1/4 down": {"down_codec": "octaves:1/4"},
    "top-k 1/24 down": {"down_codec": "topk:1/24"},
    "flat": {"per_tensor": False},
    "EF21": {"memory": "ef21"},
    "lazy 1.1": {"tau": 1.1},
    "lazy 1.3": {"tau": 1.3},
    "lazy 1.5": {"tau": 1.5},
    "lazy EF21 0.5": {"memory": "ef21", "tau": 0.5},
}
LAZY = tuple(name for name in VARIED if name.startswith("lazy"))
ADAPTIVE = "FedAMS, eps 1e-7"
BASELINES = {"FedAvg": (1.0,), "FedAMS": (0.03, 0.1, 0.3), ADAPTIVE: (0.003, 0.01, 0.03)}
RATES = {
    "two_way": (0.005, 0.01),
    ADAPTIVE: (0.003, 0.01),
    "FedAMS": (0.1, 0.3),
    "FedBNLACA 1/24": (0.03, 0.1),
}
UNCOMPRESSED = ("FedAMS", ADAPTIVE)
FULL_SIZE = {"quick": 1, "full": 5}  # times the clients, and times those of a round


# ---------------------------------------------------------------- cells


@dataclass(frozen=True, slots=True)
class OtherSplit:
    """The same task split by other seeds."""

    task: NamedTask

    def __call__(self, seed: int) -> Task:
        return self.task(seed + APART)


def cells(edition: str, known: Results) -> list[Cell]:
    """All of the tuning; rates on other splits; then whatever has a rate."""
    every = [cell for bed in beds(edition) for cell in _tuning(edition, bed)]
    for place in PLACES:
        every += [_rate_cell(edition, place, method, rate) for method in RATES for rate in RATES[method]]
        for method in RATES:
            rate = chosen_rate(known, place, method)
            if rate is not None:
                every.append(
                    _cell(
                        judging(place, method), _method(edition, place, method, rate), PLACES[place], edition
                    )
                )
    return every


def beds(edition: str) -> dict[str, TaskBed]:
    return TUNING | ({"CIFAR-10": SMALL_PICTURES} if edition == "full" else {})


def tuned(edition: str, name: str) -> dict[str, Algorithm]:
    """What is run on a tuning task, by its label."""
    work = beds(edition)[name].work
    baselines = {
        f"{method} {rate:g}": _uncompressed(method, rate, work)
        for method, rates in BASELINES.items()
        for rate in rates
    }
    return baselines | {
        label: algorithms.two_way(**{**BASE, **varied, **work}) for label, varied in VARIED.items()
    }


def _tuning(edition: str, name: str) -> list[Cell]:
    bed = beds(edition)[name]
    return [_cell(tuning(name, label), made, bed, "quick") for label, made in tuned(edition, name).items()]


def _rate_cell(edition: str, place: str, method: str, rate: float) -> Cell:
    made = _cell(
        f"rate {place}: {method} {rate:g}", _method(edition, place, method, rate), PLACES[place], edition
    )
    return replace(made, task=OtherSplit(made.task), seeds=1)  # type: ignore[arg-type]


def _method(edition: str, place: str, method: str, rate: float) -> Algorithm:
    work = _scaled(PLACES[place].work, edition)
    if method == "two_way":
        return algorithms.two_way(**{**BASE, **work, "server_lr": rate})
    if method == "FedBNLACA 1/24":
        top = "topk:1/24"
        return algorithms.fedbnlaca(server_lr=rate, codec=top, down_codec=top, tau=0.8, **work)
    return _uncompressed(method, rate, work)


def _uncompressed(method: str, rate: float, work: Settings) -> Algorithm:
    if method == "FedAvg":
        return algorithms.fedavg(server_lr=rate, **work)
    return algorithms.fedams(server_lr=rate, eps=1e-7 if method == ADAPTIVE else 1e-3, **work)


def _scaled(work: Settings, edition: str) -> dict[str, Any]:
    return {**work, "clients_per_round": FULL_SIZE[edition] * work["clients_per_round"]}


def _cell(name: str, algorithm: Algorithm, bed: TaskBed, edition: str) -> Cell:
    task: TaskMaker = replace(bed.task, clients=FULL_SIZE[edition] * bed.task.clients)
    return Cell(name=name, algorithm=algorithm, task=task, rounds=bed.rounds, evaluate_every=4)


def tuning(bed: str, label: str) -> str:
    return f"tuning {bed}: {label}"


def judging(place: str, method: str) -> str:
    return f"judging {place}: {method}"


def chosen_rate(known: Results, place: str, method: str) -> float | None:
    """The best on the first seed of other splits, once all of them are known."""
    names = {rate: f"rate {place}: {method} {rate:g}" for rate in RATES[method]}
    if not known.have(*names.values()):
        return None
    return max(names, key=lambda rate: known.of(names[rate])[0].final("accuracy", LAST))
