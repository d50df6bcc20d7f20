"""The runs behind DeFedAvg's Figures 6 and 7: updates per step, local steps, and the rates of Table 2."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fedpace.reproduce.cell import Cell
from fedpace.reproduce.defedavg import noise
from fedpace.reproduce.defedavg.setting import OURS, RATES, SCALES, algorithm, devices
from fedpace.reproduce.defedavg.setting import N as TABLE_2
from fedpace.reproduce.results import Results
from fedpace.reproduce.tuning import Grid

N = (5, 10, 20, 40, 80)
K = (20, 50, 100)
SPLITS = ("iid", "noniid")
LOCAL, SERVER = 0.05, 0.1  # Table 2
TARGET: Mapping[str, Mapping[str, float]] = {
    "quick": {"iid": 0.81, "noniid": 0.75},
    "full": SCALES["full"].target,
}
ROUNDS = {"quick": 240, "full": 2000}
SCALED_AT = 10  # the n at which the scaled server rate is Table 2's


def cells(edition: str, known: Results) -> list[Cell]:
    every = []
    for split in SPLITS:
        every += [_plain(edition, by_n(split, n), split, n, 50) for n in N]
        every += [
            _cell(edition, scaled(split, n), split, n, SERVER * n / SCALED_AT, 50, stop=True) for n in N
        ]
        every += [_plain(edition, by_k(split, k), split, 10, k) for k in K if k != 50]
    controls = [
        _cell(edition, control(split, n), split, SCALED_AT, SERVER * n / SCALED_AT, 50, stop=True)
        for split in SPLITS
        for n in N
        if n != SCALED_AT
    ]
    printed = [_printed_rates(edition, split, n) for split in SPLITS for n in TABLE_2 if not _same(split, n)]
    return [*every, *controls, *printed, *(noise.cells(known) if edition == "quick" else ())]


def grids(edition: str) -> list[Grid]:
    return noise.grids() if edition == "quick" else []


def _printed_rates(edition: str, split: str, n: int) -> Cell:
    server, local = _table_2(split, n)
    plain = _plain(edition, by_table(split, n), split, n, 50)
    return replace(plain, algorithm=algorithm(OURS, split, n, (server, local)))


def _plain(edition: str, label: str, split: str, n: int, steps: int) -> Cell:
    """At one pair of rates for all n and K; every round is evaluated, since some n differ by one or two rounds."""
    cell = _cell(edition, label, split, n, SERVER, steps)
    return replace(cell, evaluate_every=1) if edition == "quick" else cell


def _table_2(split: str, n: int) -> tuple[float, float]:
    server, local = (float(rate or 1.0) for rate in RATES[split][OURS][TABLE_2.index(n)])
    return server, local


def _same(split: str, n: int) -> bool:
    """Whether Table 2 has the rates of the other runs for this n: all but n = 80, iid, where they are 1 and 0.1."""
    return n not in TABLE_2 or _table_2(split, n) == (SERVER, LOCAL)


def by_table(split: str, n: int) -> str:
    return by_n(split, n) if _same(split, n) else f"{split} n={n}, Table 2's rates"


def control(split: str, n: int) -> str:
    """The server rate of n, with the updates of n = 10: what of a speedup is the rate's."""
    return f"{split} n={SCALED_AT}, server rate of n={n}"


def by_n(split: str, n: int) -> str:
    return f"{split} n={n}"


def scaled(split: str, n: int) -> str:
    return f"{split} n={n}, server rate x n"


def by_k(split: str, k: int) -> str:
    return by_n(split, 10) if k == 50 else f"{split} K={k}"


def _cell(
    edition: str, label: str, split: str, n: int, server: float, steps: int, stop: bool = False
) -> Cell:
    scale = SCALES[edition]
    # large n costs more per round and needs fewer: all runs of a figure still see the same number of updates or more
    rounds = max(60, ROUNDS[edition] * 10 // max(10, n)) if edition == "quick" else ROUNDS[edition]
    return Cell(
        name=label,
        algorithm=algorithm(OURS, split, n, (server, LOCAL), steps),
        task=scale.task(split),
        population=devices(),
        rounds=2 * rounds if n < 10 else rounds,
        evaluate_every=2 if edition == "quick" else 5,
        stop_at=TARGET[edition][split] if stop else None,
    )


def rate_only(split: str, n: int) -> str:
    return scaled(split, n) if n == SCALED_AT else control(split, n)
