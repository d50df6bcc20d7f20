"""FedAvg and FedGM by server rate: the runs, and FedGM's once more with training curves."""

from __future__ import annotations

from dataclasses import replace

from fedpace import algorithms
from fedpace.reproduce.cell import Cell
from fedpace.reproduce.fedgm.setting import SCALES
from fedpace.reproduce.results import Results
from fedpace.reproduce.training_curves import WithTrainingLoss

FEDAVG, FEDGM = (1, 2, 3), (1, 2, 3, 5)
FIGURE_7 = (1, 2, 5)  # FedGM's, with training curves
BETA = NU = 0.95
PAPERS_RATE = 0.01  # the clients'; the quick edition's is 0.05


def cells(edition: str, known: Results) -> list[Cell]:
    scale = SCALES[edition]
    avg = {f"FedAvg rate {eta}": algorithms.fedavg(server_lr=eta, **scale.work) for eta in FEDAVG}
    gm = {_gm(eta): algorithms.fedgm(server_lr=eta, beta=BETA, nu=NU, **scale.work) for eta in FEDGM}
    rounds = {"quick": 120, "full": 2000}[edition]
    small = {**scale.work, "client_lr": PAPERS_RATE}
    papers = {
        slow("FedAvg rate 1"): algorithms.fedavg(server_lr=1, **small),
        slow("FedGM rate 5"): algorithms.fedgm(server_lr=5, beta=BETA, nu=NU, **small),
    }
    later = papers if scale.client_lr != PAPERS_RATE else {}
    every = [
        Cell(name=name, algorithm=rule, task=scale.task(), rounds=rounds, evaluate_every=scale.evaluate_every)
        for name, rule in {**avg, **gm, **later}.items()
    ]
    curves = {_gm(eta): curve(eta) for eta in FIGURE_7}
    shown = [cell for cell in every if cell.name in curves]
    return [
        *every,
        *(replace(cell, name=curves[cell.name], task=WithTrainingLoss(cell.task)) for cell in shown),
    ]


def _gm(eta: int) -> str:
    return f"FedGM rate {eta}"


def curve(eta: int) -> str:
    return f"{_gm(eta)}, training loss"


def slow(name: str) -> str:
    return f"{name}, local rate {PAPERS_RATE}"
