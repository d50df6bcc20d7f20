"""The defaults of two_way: chosen on tasks of their own, and its lazy uplinks.

*Tuning* varies one parameter of `two_way` at a time around `BASE`, on data on which it is not judged. The rule, written
down before the runs: a variant becomes the default if it is ahead of the base by more than half a point on average over
the tuning tasks, and behind by more than half a point on none; of several the one that is furthest ahead. Else the
base stays; but an uplink without error memory is taken if it is behind by more than half a point on none.
*Laziness* runs lazy uplinks with half and with all of the clients in a round: one threshold for all tasks, and
thresholds that clients adapt to skip a quarter of their uploads, a little more than the fifth that is asked for. What
the method is worth on the tasks of the pages is judged in `judging`.

The quick edition is cut to about an hour of one core: server optimizers, memories and bits on every tuning task, the
rest on the synthetic one. Tasks differ in model size, so bits are studied by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fedpace import algorithms
from fedpace.algorithm import Algorithm
from fedpace.reproduce.cell import Cell, NamedTask
from fedpace.reproduce.results import Results
from fedpace.reproduce.two_way import judging
from fedpace.reproduce.two_way.judging import (
    JUDGED_FROM,
    SMALL_EPS,
    SPLITS,
    TaskBed,
    cell_of,
    uncompressed,
    work,
)
from fedpace.server_opt import Adam, Yogi

Settings = Mapping[str, Any]


SYNTHETIC = NamedTask("synthetic", "natural", "mlp:64", 30)
PICTURES = {
    f"CIFAR-10, {split}": TaskBed(NamedTask("cifar10", partition, "mlp:16", 20), 25, work(0.05, 20, 32, 4))
    for split, partition in SPLITS.items()
}
TUNING = {
    "synthetic": TaskBed(SYNTHETIC, 60, work(0.05, 20, 10, 10)),
    **PICTURES,
    "Shakespeare": TaskBed(NamedTask("shakespeare", "natural", "gru:32", 20), 15, work(1.0, 10, 10, 4)),
}
SMALL_PICTURES = TaskBed(NamedTask("cifar10", "dirichlet:0.5", "cnn_ca2fl", 20), 60, work(0.05, 20, 32, 10))
SEEDS = {"synthetic": 2, "Shakespeare": 2} | dict.fromkeys(PICTURES, 2)  # of a variant, quick
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
    FORMER: {"codec": "octaves:1/4", "down_codec": "ternary:1/2"},
    "dithered both ways": {"codec": "dithered:1.59"},
    "entropy both ways": {"down_codec": "entropy:1.59"},
}
SERVERS: Mapping[str, Settings] = {
    "server_lr 0.003": {"server_lr": 0.003},
    "server_lr 0.01": {"server_lr": 0.01},
    "b1 0": {"b1": 0.0},
    "b1 0.5": {"b1": 0.5},
    **{
        f"{rule.__name__} {rate:g}": {"server_opt": rule(rate, 0.9, 0.99, 1e-7)}
        for rule in (Adam, Yogi)
        for rate in (0.003, 0.01)
    },
}
MEMORIES: Mapping[str, Settings] = {
    "EF21": {"memory": "ef21"},
    "EControl": {"memory": "econtrol"},
    "dithered both ways, no memory": {"codec": "dithered:1.59", "memory": "none"},
    "momentum before compression": {"newest": 0.3, "b1": 0.0},
    "EF21-SGDM": {"memory": "ef21", "newest": 0.3, "b1": 0.0},
}
BITS: Mapping[str, Settings] = {
    f"{bits} bits both ways": {"codec": f"entropy:{bits}", "down_codec": f"dithered:{bits}"}
    for bits in (0.8, 3.2)
}
BASE_LABEL = "base"
EVERYWHERE: Mapping[str, Settings] = {BASE_LABEL: {}, **SERVERS, **MEMORIES, **BITS}
VARIED: Mapping[str, Settings] = {
    **EVERYWHERE,
    **CODECS,
    "eps 1e-3, server_lr 0.1": {"eps": 1e-3, "server_lr": 0.1},
    "eps 1e-3, server_lr 0.3": {"eps": 1e-3, "server_lr": 0.3},
    "eps 1e-5": {"eps": 1e-5},
    "eps 1e-9": {"eps": 1e-9},
    "top-k 1/24 both ways": {"codec": "topk:1/24", "down_codec": "topk:1/24"},
    "sign both ways": {"codec": "sign", "down_codec": "sign"},
    "sign down": {"down_codec": "sign"},
    "flat": {"per_tensor": False},
}
CHOSEN = ("b1 0.5", "dithered both ways, no memory")  # by the rules: with these the base is what two_way() is
DEFAULTS: Settings = {**BASE, **{name: value for label in CHOSEN for name, value in VARIED[label].items()}}
LAZY: Mapping[str, Settings] = {"never": {}, "threshold 1.2": {"tau": 1.2}, "a quarter": {"skip": 0.25}}
BASELINES = {"FedAvg": (1.0,), "FedAMS": (0.1, 0.3), SMALL_EPS: (0.003, 0.01, 0.03)}


# ---------------------------------------------------------------- cells


def cells(edition: str, known: Results) -> list[Cell]:
    """The runs that chose the defaults, which judge nothing, if asked for; lazy uplinks, then what is judged."""
    every = [replace(cell, by_name=True) for bed in beds(edition) for cell in _tuning(edition, bed)]
    every += [cell for bed in LAZINESS for cell in _laziness(bed)]
    return every + judging.cells(edition, known)


def beds(edition: str) -> dict[str, TaskBed]:
    return TUNING | ({"CIFAR-10, a small CNN": SMALL_PICTURES} if edition == "full" else {})


def tuned(edition: str, name: str) -> dict[str, Algorithm]:
    """What is run on a tuning task, by its label."""
    given = beds(edition)[name].work
    whole = edition == "full" or name == "synthetic"
    baselines = {
        f"{method} {rate:g}": uncompressed(method, rate, given)
        for method, rates in BASELINES.items()
        for rate in (rates if whole else rates[:2])
        if whole or method == SMALL_EPS
    }
    varied = VARIED if whole else EVERYWHERE
    return baselines | {
        label: algorithms.two_way(**{**BASE, **settings, **given}) for label, settings in varied.items()
    }


def _tuning(edition: str, name: str) -> list[Cell]:
    bed = beds(edition)[name]
    made = {
        label: cell_of(tuning(name, label), rule, bed, "quick")
        for label, rule in tuned(edition, name).items()
    }
    if edition == "full":
        return list(made.values())
    return [
        replace(cell, seeds=1 if name == "synthetic" and label not in EVERYWHERE else SEEDS[name])
        for label, cell in made.items()
    ]


def _laziness(name: str) -> list[Cell]:
    bed = LAZINESS[name]
    base = {**DEFAULTS, "codec": "entropy:1.59", "memory": "ef"}  # what is skipped must be remembered
    rules = {label: algorithms.two_way(**{**base, **given, **bed.work}) for label, given in LAZY.items()}
    cells = [cell_of(laziness(name, label), rule, bed, "quick") for label, rule in rules.items()]
    return [replace(cell, first_seed=JUDGED_FROM) for cell in cells]


def tuning(bed: str, label: str) -> str:
    return f"tuning {bed}: {label}"


def laziness(bed: str, label: str) -> str:
    return f"laziness {bed}: {label}"
