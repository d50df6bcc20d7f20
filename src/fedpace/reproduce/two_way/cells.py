"""The methods of the two-way experiment: who is run, on what, at which server rate."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from fedpace import algorithms
from fedpace.algorithm import Algorithm
from fedpace.reproduce.cell import Cell, NamedTask
from fedpace.reproduce.results import Results
from fedpace.reproduce.tuning import Grid, final_accuracy

PARTITION = {"iid": "iid", "non-iid": "shards:2"}
DATA = {"Fashion-MNIST": "fashion-mnist", "MNIST": "mnist"}
CNN = "CNN"
NETWORKS = {"": "mlp:64", CNN: "cnn:8"}


class DataSplit(NamedTuple):
    """Where methods are compared; half of the clients in a round and an MLP unless it says otherwise."""

    data: str
    split: str
    participation: str = ""
    network: str = ""


PLACES: tuple[DataSplit, ...] = tuple(DataSplit(data, split) for data in DATA for split in PARTITION)
BASELINES = ("FedAvg", "FedAdam", "FedAMS")
RATES: Mapping[str, tuple[float, ...]] = {"FedAvg": (1.0,), "FedAdam": (0.01, 0.03), "FedAMS": (0.03, 0.1)}
SUGGESTED = "FedNLAA, suggested C"
EIGHT, THIRTY, TINY = "topk:1/8", "topk:1/32", "topk:1/128"
# two_way when the page was made; a client's first model is sent whole, as the published two-way methods send it
PAGE: dict[str, Any] = {"b1": 0.9, "eps": 1e-3, "per_tensor": False, "first": "dense"}
TAU_NLA, TAU_TOPK, TAU_AA, TAU_EF21, TAU_DOWN = 0.5, 0.8, 0.3, 0.8, 0.9
SUBSET = (  # quick, on MNIST
    "FedAvg",
    "FedAdam",
    "FedAMS",
    "FedCAMS 1/8",
    "FedNLAA",
    "FedACA 1/8",
    "FedBNLACA 1/8",
    "FedBACA 1/8",
    "two_way 1/8",
)
# quick, on Fashion-MNIST: what claims are about that has not been tuned; the rest stands beside the tuned cells
JUDGED = (
    "FedNLAA",
    "FedNLACA 1/8",
    "FedBNLACA 1/8",
    "FedBACA 1/8",
    "FedBACA 1/128",
    "FedBNLACA 1/128",
    "two_way 1/8",
    "two_way 1/8 lazy",
    "two_way 1/8 lazy, tau 0.5",
    SUGGESTED,
)
LAST = 3

Work = dict[str, Any]


def _method(make: Callable[..., Algorithm], **parameters: Any) -> Callable[[float, Work], Algorithm]:
    return lambda lr, work: make(server_lr=lr, **parameters, **work)


def _both(codec: str) -> dict[str, str]:
    return {"codec": codec, "down_codec": codec}


# every method by its server rate (that of FedAMS) and the work of its clients
METHODS: Mapping[str, Callable[[float, Work], Algorithm]] = {
    "FedCAMS 1/8": _method(algorithms.fedcams, codec=EIGHT),
    "FedNLAA": _method(algorithms.fednlaa, tau=TAU_NLA),
    "FedNLAA, tau 0.3": _method(algorithms.fednlaa, tau=0.3),
    "FedAA": _method(algorithms.fedaa, tau=TAU_AA),
    "FedNLACA 1/8": _method(algorithms.fednlaca, codec=EIGHT, tau=TAU_TOPK),
    "FedACA 1/8": _method(algorithms.fedaca, codec=EIGHT, tau=TAU_AA),
    "FedBNLACA 1/8": _method(algorithms.fedbnlaca, **_both(EIGHT), tau=TAU_TOPK),
    "FedBACA 1/8": _method(algorithms.fedbaca, **_both(EIGHT), tau=TAU_AA),
    # line 7 of Algorithm 2: the server, too, repeats (NLA) or adds (AA) the model it sent before
    "FedBNLACA 1/8, tau_down 0.9": _method(
        algorithms.fedbnlaca, **_both(EIGHT), tau=TAU_TOPK, tau_down=TAU_DOWN
    ),
    "FedBACA 1/8, tau_down 0.9": _method(algorithms.fedbaca, **_both(EIGHT), tau=TAU_AA, tau_down=TAU_DOWN),
    "two_way 1/8": _method(algorithms.two_way, **_both(EIGHT), **PAGE),
    "two_way 1/8 lazy": _method(algorithms.two_way, **_both(EIGHT), memory="ef21", tau=TAU_EF21, **PAGE),
    "two_way 1/8 lazy, tau 0.5": _method(algorithms.two_way, **_both(EIGHT), memory="ef21", tau=0.5, **PAGE),
    "FedBNLACA 1/32": _method(algorithms.fedbnlaca, **_both(THIRTY), tau=TAU_TOPK),
    "FedBACA 1/128": _method(algorithms.fedbaca, **_both(TINY), tau=TAU_AA),
    "FedBNLACA 1/128": _method(algorithms.fedbnlaca, **_both(TINY), tau=TAU_TOPK),
    "two_way 1/32": _method(algorithms.two_way, **_both(THIRTY), **PAGE),
}


@dataclass(frozen=True, slots=True)
class TwoWayScale:
    clients: int
    work: Work
    rounds: int
    evaluate_every: int


SCALES = {
    "quick": TwoWayScale(
        20, {"client_lr": 0.05, "steps": 20, "batch_size": 32, "clients_per_round": 10}, 60, 4
    ),
    "full": TwoWayScale(
        100, {"client_lr": 0.05, "epochs": 3, "batch_size": 32, "clients_per_round": 50}, 100, 2
    ),
}


def suggested_tau(clients: int, taking_part: int) -> float:
    """C / (alpha n) with C = sqrt(alpha ln m) / m and alpha = 1: the paper's advice."""
    return math.sqrt(math.log(clients)) / clients / taking_part


def cells(edition: str, known: Results) -> list[Cell]:
    """Server rates of the baselines on the first seed; then everything at the best, FedAMS's for its relatives."""
    every = []
    for place in PLACES:
        wanted = SUBSET if edition == "quick" and place.data == "MNIST" else None
        every += [cell for method in BASELINES for cell in _grid(edition, place, method).cells()]
        every += [
            replace(
                cell_at(edition, name_of(place, method), place, rule), by_name=_beside(edition, place, method)
            )
            for method, rule in _rules(edition, place, known).items()
            if wanted is None or method in wanted
        ]
    return every


def _beside(edition: str, place: DataSplit, method: str) -> bool:
    """Whether a cell is in the tables only, beside the tuned one that is judged."""
    return edition == "quick" and (place.data == "MNIST" or method not in JUDGED)


def grids(edition: str) -> list[Grid]:
    return [_grid(edition, place, method) for place in PLACES for method in BASELINES]


def _grid(edition: str, place: DataSplit, method: str) -> Grid:
    def cell(rate: float, _: str) -> Cell:
        return cell_at(edition, _tuning(place, method, rate), place, _baseline(edition, method, rate), 1)

    return Grid(name_of(place, method), RATES[method], cell, final_accuracy(LAST))


def _rules(edition: str, place: DataSplit, known: Results) -> dict[str, Algorithm]:
    """The methods whose server rate is known by now."""
    scale = SCALES[edition]
    chosen = {m: lr for m in BASELINES if (lr := _rate(edition, place, m, known)) is not None}
    rules = {method: _baseline(edition, method, lr) for method, lr in chosen.items()}
    if (rate := chosen.get("FedAMS")) is not None:
        rules |= {method: make(rate, scale.work) for method, make in METHODS.items()}
        tau = suggested_tau(scale.clients, scale.work["clients_per_round"])
        rules[SUGGESTED] = algorithms.fednlaa(server_lr=rate, tau=tau, **scale.work)
    return rules


def _baseline(edition: str, method: str, rate: float) -> Algorithm:
    work = SCALES[edition].work
    if method == "FedAvg":
        return algorithms.fedavg(server_lr=rate, **work)
    return (
        algorithms.fedadam(server_lr=rate, **work)
        if method == "FedAdam"
        else algorithms.fedams(server_lr=rate, **work)
    )


def _rate(edition: str, place: DataSplit, method: str, known: Results) -> float | None:
    chosen = _grid(edition, place, method).chosen(known)
    return None if chosen is None else float(chosen.name.split()[-1])


def cell_at(edition: str, label: str, place: DataSplit, rule: Algorithm, seeds: int | None = None) -> Cell:
    scale = SCALES[edition]
    return Cell(
        name=label,
        algorithm=rule,
        task=NamedTask(DATA[place.data], PARTITION[place.split], NETWORKS[place.network], scale.clients),
        rounds=scale.rounds,
        evaluate_every=scale.evaluate_every,
        seeds=seeds,
    )


def _tuning(place: DataSplit, method: str, rate: float) -> str:
    return f"rates {name_of(place, method)} {rate:g}"


def name_of(place: DataSplit, method: str) -> str:
    return f"{' '.join(filter(None, place))} {method}"


def where(place: DataSplit) -> str:
    return ", ".join(filter(None, place))
