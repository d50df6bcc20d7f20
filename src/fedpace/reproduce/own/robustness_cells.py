"""The cells of the study of attacks: rules, attacks, splits, pacing; and how much of an attack a rule survives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from fedpace import algorithms
from fedpace.aggregate import (
    Bucketed,
    CenteredClip,
    GeometricMedian,
    Krum,
    Mean,
    Median,
    NormBound,
    TrimmedMean,
)
from fedpace.algorithm import Algorithm
from fedpace.reproduce.cell import Cell, NamedTask
from fedpace.reproduce.results import Results
from fedpace.sim import Hostile, Population

CLIENTS = 20
BUFFER = 10
SHARES = {"quick": (0.1, 0.2, 0.3, 0.4), "full": (0.2, 0.4)}
DATA = {"quick": ("digits", "mlp:32"), "full": ("fashion-mnist", "mlp:32")}
ROUNDS = 40
SPLITS = ("iid", "dirichlet:0.3")
UPDATES = {"synchronous": CLIENTS, "buffered": BUFFER}  # of a server step, by pacing
PACES = tuple(UPDATES)
WORK: dict[str, dict[str, Any]] = {
    "quick": {"client_lr": 0.1, "epochs": 2, "batch_size": 10},
    "full": {"client_lr": 0.1, "steps": 20, "batch_size": 20},  # updates about as long as those on digits
}

ATTACKS: Mapping[str, float | None] = {
    "sign_flip": 4.0,
    "noise": 50.0,
    "scale": 100.0,
    "label_flip": None,
    "alie": None,
    "ipm": 4.0,
    "free_rider": 0.0,
    "false_fields": 1000.0,
}  # and their strengths; None: the attack's own
MEAN = "mean"
KEPT = 5.0  # points below the mean without attackers that still count as survived


def rules(updates: int) -> dict[str, Any]:
    """Every rule, for steps of that many updates; Krum expects as many hostile ones as it tolerates."""
    hostile = tolerated_by_krum(updates)
    return {
        MEAN: Mean(),
        "median": Median(),
        "trimmed mean 0.2": TrimmedMean(0.2),
        "trimmed mean 0.4": TrimmedMean(0.4),
        "geometric median": GeometricMedian(),
        "Krum": Krum(hostile),
        "multi-Krum": Krum(hostile, keep=updates // 2),
        "centred clipping": CenteredClip(0.3, iterations=5),
        "norm bound": NormBound(0.5),
        "median of pairs": Bucketed(2, Median()),
    }


def tolerated_by_krum(updates: int) -> int:
    """The largest f with n >= 2 f + 3."""
    return (updates - 3) // 2


def breakdown(pace: str) -> dict[str, float]:
    """Published: the share of hostile updates that a rule survives, for honest updates that are alike."""
    krum = tolerated_by_krum(UPDATES[pace]) / UPDATES[pace]
    return {
        MEAN: 0.0,
        "median": 0.5,
        "trimmed mean 0.2": 0.2,
        "trimmed mean 0.4": 0.4,
        "geometric median": 0.5,
        "Krum": krum,
        "multi-Krum": krum,
        "norm bound": 0.0,
        "median of pairs": 0.25,
    }


def _algorithm(edition: str, pace: str, rule: str) -> Algorithm:
    aggregate = rules(UPDATES[pace])[rule]
    if pace == "synchronous":
        return replace(algorithms.fedavg(**WORK[edition]), aggregate=aggregate, name=rule)
    plain = algorithms.fedbuff(buffer=BUFFER, concurrency=CLIENTS, server_lr=1.0, **WORK[edition])
    return replace(plain, aggregate=aggregate, name=rule)


def cell_name(split: str, pace: str, rule: str, attack: str = "", share: float = 0.0) -> str:
    return f"{split} {pace} {rule}" + (f" {attack} {share:g}" if attack else " honest")


def _cell(edition: str, split: str, pace: str, rule: str, attack: str = "", share: float = 0.0) -> Cell:
    data, model = DATA[edition]
    hostile = Hostile(share, attack, ATTACKS[attack]) if attack else None
    devices = Population(1.0) if pace == "synchronous" else Population.half_normal(2.0, 1.0)
    rounds = ROUNDS * (1 if pace == "synchronous" else CLIENTS // BUFFER)
    return Cell(
        name=cell_name(split, pace, rule, attack, share),
        algorithm=_algorithm(edition, pace, rule),
        task=NamedTask(data, split, model, CLIENTS),
        rounds=rounds,
        population=replace(devices, hostile=hostile),
        evaluate_every=rounds // 4,
    )


def cells(edition: str, known: Results) -> list[Cell]:
    """Everything on digits; on the larger data set two shares."""
    return [
        cell
        for split, pace in columns()
        for rule in rules(CLIENTS)
        for cell in (
            _cell(edition, split, pace, rule),
            *(
                _cell(edition, split, pace, rule, attack, share)
                for attack in ATTACKS
                for share in SHARES[edition]
            ),
        )
    ]


def columns() -> Iterator[tuple[str, str]]:
    return ((split, pace) for split in SPLITS for pace in PACES)


def worst_attack(
    results: Results, split: str, pace: str, rule: str, share: float
) -> tuple[float, str] | None:
    """The lowest mean accuracy over attacks, and which attack it was; None while some are missing."""
    names = {attack: cell_name(split, pace, rule, attack, share) for attack in ATTACKS}
    if not results.have(*names.values()):
        return None
    return min((results.final(name).mean, attack) for attack, name in names.items())


def honest_mean(results: Results, split: str, pace: str) -> float:
    return results.final(cell_name(split, pace, MEAN)).mean


def largest_survived(edition: str, results: Results, split: str, pace: str, rule: str) -> float | None:
    """The largest share up to which no attack costs more than KEPT points."""
    survived = 0.0
    for share in SHARES[edition]:
        worst = worst_attack(results, split, pace, rule, share)
        if worst is None:
            return None
        if worst[0] < honest_mean(results, split, pace) - KEPT:
            return survived
        survived = share
    return survived
