"""Autonomous FedGM and FedAvg, replayed and on the clock: grids of server rates and momenta, and the runs."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import Any

from fedpace import algorithms
from fedpace.algorithm import Algorithm
from fedpace.reproduce.cell import Cell
from fedpace.reproduce.fedgm.setting import SCALES
from fedpace.reproduce.results import Results
from fedpace.reproduce.training_curves import WithTrainingLoss
from fedpace.reproduce.tuning import Grid
from fedpace.reproduce.tuning import final_accuracy as tuned_accuracy
from fedpace.sim import Population
from fedpace.theory import stability_limit

CLIENT_LR = 0.01  # the paper's; at 0.05 clients go nearly all the way, and old models lead far astray
GRID_ROUNDS = {"quick": 60, "full": 500}
ROUNDS = 500  # the paper's, in both editions
DELAYS = (5, 10)
IDEAL = "ideal FedGM"
CLOCK = "on the clock"
PRINTED = "printed"  # updates divided by their steps and not multiplied by the mean number of steps


def auto(method: str, where: int | str) -> str:
    return f"autonomous {method}, {where if isinstance(where, str) else f'R = {where}'}"


PLACES: tuple[int | str, ...] = (*DELAYS, CLOCK)
VARIANTS = (
    IDEAL,
    *(auto(method, where) for where in PLACES for method in ("FedGM", "FedAvg")),
    *(f"{PRINTED} {auto(method, where)}" for where in DELAYS for method in ("FedGM", "FedAvg")),
)
SHOWN = (IDEAL, *(auto(method, where) for where in DELAYS for method in ("FedGM", "FedAvg")))  # loss curves
SERVER_RATES = (0.1, 0.3, 0.5, 1.0, 2.0, 3.0)
PRINTED_RATES = (1.0, 3.0, 5.0)
MOMENTA = (0.7, 0.9, 0.95)  # beta and nu, apart
TRIED = 3  # of the nine pairs: those with the largest stability limit under the delay
WAY = 0.5  # the part of the way to its own optimum that a client is taken to go: limits are limits of rate times it


def cells(edition: str, known: Results) -> list[Cell]:
    """Server rates and momenta, then the best of each for every seed."""
    return [cell for grid in grids(edition) for cell in _with_choice(grid, known)]


def _with_choice(grid: Grid, known: Results) -> list[Cell]:
    """A grid, and its best setting for every seed."""
    tuned = grid.chosen(known)
    cells = grid.cells()
    if tuned is None:
        return cells
    judged = replace(tuned, name=grid.name, rounds=ROUNDS, seeds=None, training_loss=True)
    if grid.name in SHOWN:
        judged = replace(judged, task=WithTrainingLoss(judged.task))
    return [*cells, judged]


def grids(edition: str) -> list[Grid]:
    return [_grid(edition, name) for name in VARIANTS]


def _grid(edition: str, name: str) -> Grid:
    """Momenta that the delay leaves room for, and rates without those that the delay alone makes unstable.

    As printed, rates up to the paper's 5 are small steps, far below every limit.
    """
    as_printed = name.startswith(PRINTED)

    def cell(eta: float, momenta: str) -> Cell | None:
        beta, nu = (float(word) for word in momenta.split()[2::2]) if momenta else (0.0, 0.0)
        if not as_printed and eta > _limit(beta, nu, _delays(name)) / WAY:
            return None
        rule = _rule(edition, name, eta, beta, nu)
        return _cell(edition, f"grid {name}, rate {eta:g}{momenta}", name, rule)

    others = tuple(f", beta {beta} nu {nu}" for beta, nu in _momenta(_delays(name)))
    return Grid(
        name,
        PRINTED_RATES if as_printed else SERVER_RATES,
        cell,
        tuned_accuracy(3),
        others if "FedGM" in name else ("",),
        judged_rounds=ROUNDS if GRID_ROUNDS[edition] < ROUNDS else None,
    )


_limit = lru_cache(stability_limit)


def _momenta(delays: int) -> list[tuple[float, float]]:
    """The pairs of the grid that stay stable at the largest server rates."""
    pairs = product(MOMENTA, MOMENTA)
    return sorted(pairs, key=lambda pair: -_limit(*pair, delays))[:TRIED]


def _delays(name: str) -> int:
    """How many models back a client may start; on the clock 15 active clients and a buffer of 5 mean about 5."""
    return 1 if name == IDEAL else DELAYS[0] if CLOCK in name else int(name.split()[-1])


def _cell(edition: str, label: str, name: str, rule: Algorithm) -> Cell:
    scale = SCALES[edition]
    return Cell(
        name=label,
        algorithm=rule,
        task=scale.task(),
        population=Population.half_normal(5.0, 1.0) if CLOCK in name else None,
        rounds=GRID_ROUNDS[edition],
        evaluate_every=scale.evaluate_every,
        seeds=1,
    )


def _rule(edition: str, name: str, eta: float, beta: float, nu: float) -> Algorithm:
    scale = SCALES[edition]
    momentum: dict[str, Any] = {"server_lr": eta, "beta": beta, "nu": nu}
    if name == IDEAL:
        return algorithms.fedgm(**momentum, **{**scale.work, "client_lr": CLIENT_LR})
    work: dict[str, Any] = {
        "client_lr": CLIENT_LR,
        "epochs": (1, 6),
        "batch_size": scale.batch_size,
        "k_ref": 1.0 if name.startswith(PRINTED) else "mean",
    }
    if CLOCK in name:
        return algorithms.autonomous_fedgm(buffer=5, concurrency=15, **momentum, **work)
    return algorithms.autonomous_fedgm(history=int(name.split()[-1]), clients_per_round=5, **momentum, **work)
