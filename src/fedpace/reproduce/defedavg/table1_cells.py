"""The methods of DeFedAvg's Table 1: who is run, at which rates, until when."""

from __future__ import annotations

import math
from collections.abc import Mapping

from fedpace.reproduce import pictures as draw
from fedpace.reproduce.cell import Cell
from fedpace.reproduce.defedavg.setting import (
    OURS,
    RATES,
    SAVING,
    SCALES,
    SECONDS,
    N,
    Pair,
    algorithm,
    devices,
)
from fedpace.reproduce.results import Results, SeedSpread
from fedpace.reproduce.tuning import Grid, soonest

METHODS = {
    "iid": ("FedAvg", "FAVANO", "AsySG", OURS),
    "noniid": ("FedAvg", "FAVANO", "FedBuff", "FedBuff 2n", OURS, SAVING),
}
ORDER = tuple(dict.fromkeys(method for methods in METHODS.values() for method in methods))  # of colours
# of the paper's grid, and a server rate between its 0.1 and 1
SERVER_RATES, LOCAL_RATES = (1.0, 0.3, 0.1), ("0.01", "0.05", "0.1")
SLOW = ("FAVANO", "AsySG")  # far behind whatever their rates: tuned at n = 10 only, and given up sooner
RATES_TRIED: Mapping[str, tuple[float, ...]] = {
    "FAVANO": (0.05, 0.1),  # the clients'
    "AsySG": (0.1, 0.03, 0.01),  # the paper has 0.1 and 1; both are too large here
}
EVERY_S = 0.25
CAP_SLOW_S, CAP_TUNING_S = 20.0, 20.0  # quick edition
CAP_BUSY_S = (
    12.0  # of tuning where all clients are active: ten times the trainings of a round in the same time
)
BUSY = ("FedBuff", OURS)
# full edition: where most clients train all the time; at n = 10 DeFedAvg takes 28 and 45 s
COSTLY, CAP_COSTLY_S = ("FAVANO", "FedBuff", "FedBuff 2n"), 60.0
TITLES = {"iid": "iid", "noniid": "two classes per client"}


def cells(edition: str, known: Results) -> list[Cell]:
    """Quick: rates chosen for every n, as in the paper. Full: the paper's Table 2."""
    every = [(split, method) for split, methods in METHODS.items() for method in methods]
    return [cell for split, method in every for cell in _of_method(edition, split, method, known)]


def _of_method(edition: str, split: str, method: str, known: Results) -> list[Cell]:
    every = []
    for at, n in enumerate(numbers(method)):
        if edition == "quick" and n in _tuned_at(method):
            every += _grid(split, method, n).cells()
        if (pair := rates(edition, split, method, at, known)) is not None:
            every.append(_cell(edition, name(split, method, n), split, method, n, pair, None))
    return every


def grids(edition: str) -> list[Grid]:
    """Quick: every n, the slow methods at n = 10 only. Full has the paper's own rates."""
    if edition == "full":
        return []
    return [
        _grid(split, method, n)
        for split, methods in METHODS.items()
        for method in methods
        for n in _tuned_at(method)
    ]


def _tuned_at(method: str) -> tuple[int, ...]:
    """Energy saving has DeFedAvg's rates: only what it saves is compared."""
    return () if method == SAVING else N[:1] if method in SLOW else numbers(method)


def numbers(method: str) -> tuple[int, ...]:
    """The n of a method; at n = 80 FedBuff with 2n active clients, of 100, is FedBuff with all of them."""
    return N[:-1] if method == "FedBuff 2n" else N


def _grid(split: str, method: str, n: int) -> Grid:
    def cell(rate: float, local: str) -> Cell | None:
        pair = pair_of(method, rate, local)
        return (
            None
            if pair is None
            else _cell("quick", _tuning(split, method, n, pair), split, method, n, pair, 1)
        )

    merit = soonest(SCALES["quick"].target[split], draw.seconds)
    others = ("",) if method in SLOW else LOCAL_RATES
    return Grid(name(split, method, n), RATES_TRIED.get(method, SERVER_RATES), cell, merit, others)


def pair_of(method: str, rate: float, local: str) -> Pair | None:
    """Server and local rate; a local rate of 0.01 is tried with server rates of 1 and above only."""
    if method == "FAVANO":
        return None, rate
    if method == "AsySG":
        return rate, None
    return None if float(local) < 0.05 and rate < 1 else (rate, float(local))


def _tuning(split: str, method: str, n: int, pair: Pair) -> str:
    return f"rates {split} {method} n={n} {pair[0]} {pair[1]}"


def name(split: str, method: str, n: int) -> str:
    return f"{split} {method} n={n}"


def rates(edition: str, split: str, method: str, at: int, known: Results) -> Pair | None:
    """Server and local rate of a method for the n at this place; None while the choice is open."""
    if edition == "full":
        return RATES[split][printed_name(method)][at]
    tuned = OURS if method == SAVING else method
    chosen = _grid(split, tuned, N[0] if method in SLOW else N[at]).chosen(known)
    if chosen is None:
        return None
    server, local = (None if word == "None" else float(word) for word in chosen.name.split()[-2:])
    return server, local


def _cell(
    edition: str,
    label: str,
    split: str,
    method: str,
    n: int,
    pair: Pair,
    seeds: int | None,
) -> Cell:
    scale = SCALES[edition]
    return Cell(
        name=label,
        algorithm=algorithm(method, split, n, pair),
        task=scale.task(split),
        population=devices(method),
        rounds=1_000_000,
        evaluate_every=f"{EVERY_S if edition == 'quick' else 4 * EVERY_S}s",
        stop_at=scale.target[split],
        stop_s=cap_s(edition, split, method, n, tuning=seeds is not None),
        seeds=seeds,
    )


def cap_s(edition: str, split: str, method: str, n: int, tuning: bool = False) -> float:
    """Virtual seconds after which a run counts as "not reached"."""
    if edition == "full":
        return _cap_full_s(split, method, n)
    if tuning:
        return CAP_BUSY_S if method in BUSY else CAP_TUNING_S
    return CAP_SLOW_S if method in SLOW else SCALES[edition].cap_s[split]


def _cap_full_s(split: str, method: str, n: int) -> float:
    if method in COSTLY:
        return CAP_COSTLY_S
    if n == N[-1]:  # 80 trainings for every server step, and DeFedAvg has twice as many steps as FedAvg
        longer = 1.0 if printed_name(method) == OURS else 4 / 3
        return float(math.ceil(longer * SECONDS[split][printed_name(method)][-1]))
    return SCALES["full"].cap_s[split]


def printed_name(method: str) -> str:
    """The method of the paper's tables that this one is a reading of."""
    return method.removesuffix(" 2n").partition(",")[0]


def taken(edition: str, results: Results, split: str, method: str, n: int) -> SeedSpread:
    """Virtual seconds to the target."""
    return results.to_target(name(split, method, n), SCALES[edition].target[split], draw.seconds)
