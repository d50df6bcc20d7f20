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
from dataclasses import replace
from typing import Any

from fedpace import algorithms
from fedpace.algorithm import Algorithm
from fedpace.reproduce import two_way_judging
from fedpace.reproduce.cell import Cell, NamedTask
from fedpace.reproduce.results import Results
from fedpace.reproduce.two_way_judging import SMALL_EPS, TaskBed, cell_of, uncompressed, work

Settings = Mapping[str, Any]


SYNTHETIC = NamedTask("synthetic", "natural", "mlp:64", 30)
TUNING = {
    "synthetic": TaskBed(SYNTHETIC, 60, work(0.05, 20, 10, 10)),
    "Shakespeare": TaskBed(NamedTask("shakespeare", "natural", "gru:32", 20), 40, work(1.0, 10, 10, 10)),
    "CIFAR-10": TaskBed(NamedTask("cifar10", "dirichlet:0.5", "mlp:32", 20), 40, work(0.05, 20, 32, 10)),
}
SMALL_PICTURES = TaskBed(NamedTask("cifar10", "dirichlet:0.5", "cnn_ca2fl", 20), 60, work(0.05, 20, 32, 10))
DIGITS = NamedTask("digits", "iid", "mlp", 20)
LAZINESS = {
    "digits, all clients": TaskBed(DIGITS, 120, work(0.1, 10, 10, None)),
    "digits, half of the clients": TaskBed(DIGITS, 120, work(0.1, 10, 10, 10)),
    "synthetic, all clients": TaskBed(SYNTHETIC, 60, work(0.05, 20, 10, None)),
    "synthetic, half of the clients": TaskBed(SYNTHETIC, 60, work(0.05, 20, 10, 15)),
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
BASELINES = {"FedAvg": (1.0,), "FedAMS": (0.1, 0.3), SMALL_EPS: (0.003, 0.01, 0.03)}


# ---------------------------------------------------------------- cells


def cells(edition: str, known: Results) -> list[Cell]:
    """The tuning and the lazy uplinks, then what is judged."""
    every = [cell for bed in beds(edition) for cell in _tuning(edition, bed)]
    every += [cell for bed in LAZINESS for cell in _laziness(bed)]
    return every + two_way_judging.cells(edition, known)


def beds(edition: str) -> dict[str, TaskBed]:
    return TUNING | ({"CIFAR-10": SMALL_PICTURES} if edition == "full" else {})


def tuned(edition: str, name: str) -> dict[str, Algorithm]:
    """What is run on a tuning task, by its label; quick, the codecs alone but on the synthetic task."""
    given_work = beds(edition)[name].work
    whole = edition == "full" or name == "synthetic"
    baselines = {
        f"{method} {rate:g}": uncompressed(method, rate, work)
        for method, rates in BASELINES.items()
        for rate in (rates if whole else rates[:2])
        if whole or method == SMALL_EPS
    }
    varied = VARIED if whole else CODECS
    return baselines | {
        label: algorithms.two_way(**{**BASE, **given, **work}) for label, given in varied.items()
    }


def _tuning(edition: str, name: str) -> list[Cell]:
    bed = beds(edition)[name]
    made = [cell_of(tuning(name, label), rule, bed, "quick") for label, rule in tuned(edition, name).items()]
    return made if edition == "full" or name == "synthetic" else [replace(cell, seeds=1) for cell in made]


def _laziness(name: str) -> list[Cell]:
    bed = LAZINESS[name]
    rules = {label: algorithms.two_way(**{**BASE, **given, **bed.work}) for label, given in LAZY.items()}
    return [cell_of(laziness(name, label), rule, bed, "quick") for label, rule in rules.items()]


def tuning(bed: str, label: str) -> str:
    return f"tuning {bed}: {label}"


def laziness(bed: str, label: str) -> str:
    return f"laziness {bed}: {label}"
