"""Quadratics whose limits are known in closed form: numbers, closed forms and the runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedpace import algorithms
from fedpace.algorithm import Algorithm
from fedpace.compute import Task
from fedpace.random import stream
from fedpace.reproduce.cell import Cell, Exact
from fedpace.reproduce.fednova import figure2
from fedpace.reproduce.results import Results

# Lemma 1, scalar: F_i = (x - e_i)^2 / 2
CENTERS, STEPS = (1.0, 2.0, 6.0), (1, 2, 5)
RATES = (0.1, 0.01, 0.001)
SCALAR = {  # eta_l -> limit of FedAvg, limit of FedNova
    0.1: (4.198739117382, 2.821980339615),
    0.01: (4.357621569450, 2.981714502471),
    0.001: (4.373265272151, 2.998167139504),
}
SMALL_RATE_LIMIT, OPTIMUM = 4.375, 3.0

# eq. (28): F_i = x'H_i x / 2 - e_i'x, shares p, steps K
H = (((2.0, 0.5), (0.5, 1.0)), ((1.0, -0.2), (-0.2, 3.0)), ((1.5, 0.0), (0.0, 0.5)))
E = ((1.0, 0.0), (0.0, 2.0), (-1.0, 1.0))
P, K, RATE = (0.5, 0.3, 0.2), (2, 5, 9), 0.1
GENERAL = {  # published as formulas; evaluated in the specification
    "FedAvg": (-0.059307074622, 0.752806335074),
    "FedProx mu=1": (-0.007414527859, 0.687626101930),
    "FedNova": (0.208187737306, 0.425152817417),
    "FedNova prox mu=1": (0.199767347580, 0.431072508607),
    "FedNova-VR": (0.126062862219, 0.517365370786),  # the optimum itself
}
HALVINGS = (0.1, 0.05, 0.025, 0.0125)

SPREADS, MEAN_STEPS, SPREAD_RATE = (0, 1, 2, 3, 4), 5, 0.02
METHODS = ("FedAvg", "FedProx mu=1", "FedNova")


@dataclass(frozen=True, slots=True)
class Scattered:
    """Eight clients with minima and curvatures drawn by the seed: who works more is decided by nobody's merit."""

    clients: int = 8
    size: int = 3

    def __call__(self, seed: int) -> Task:
        from fedpace.tasks import quadratics

        rng = stream(seed, "data", self.clients)
        centers = rng.normal(size=(self.clients, self.size))
        curvatures = np.stack([np.diag(rng.uniform(0.5, 1.5, self.size)) for _ in range(self.clients)])
        return quadratics(centers, curvatures)


def cells(edition: str, known: Results) -> list[Cell]:
    """Both editions are the same: it takes minutes."""
    return [*_scalar(), *_general(), *_halving(), *_spread(), *figure2.cells()]


def _scalar() -> list[Cell]:
    task = Exact(CENTERS)
    return [
        Cell(
            name=f"scalar {name}, rate {rate}",
            algorithm=_method(name, rate, STEPS),
            task=task,
            rounds=math.ceil(12 / rate),
            evaluate_every=None,
            seeds=1,
        )
        for rate in RATES
        for name in ("FedAvg", "FedNova")
    ]


def _general() -> list[Cell]:
    return [_general_cell(f"general {name}", name, RATE, 400) for name in GENERAL]


def _halving() -> list[Cell]:
    return [
        _general_cell(f"halving FedNova, rate {rate}", "FedNova", rate, math.ceil(40 / rate))
        for rate in HALVINGS
    ]


def _general_cell(cell: str, method: str, rate: float, rounds: int) -> Cell:
    centers = tuple(
        tuple(np.linalg.solve(np.array(h), np.array(e)).tolist()) for h, e in zip(H, E, strict=True)
    )
    return Cell(
        name=cell,
        algorithm=_method(method, rate, K),
        task=Exact(centers, H, P),
        rounds=rounds,
        evaluate_every=None,
        seeds=1,
    )


def _spread() -> list[Cell]:
    return [
        Cell(
            name=f"spread {spread} {name}",
            algorithm=_method(name, SPREAD_RATE, unequal(spread), "uniform"),
            task=Scattered(),
            rounds=600,
            evaluate_every=100,
        )
        for spread in SPREADS
        for name in METHODS
    ]


def unequal(spread: int) -> tuple[int, ...]:
    """Half of the clients do more, half less; the mean stays."""
    return tuple(MEAN_STEPS + spread if client % 2 else MEAN_STEPS - spread for client in range(8))


def _method(name: str, rate: float, steps: Sequence[int], weighting: str = "samples") -> Algorithm:
    mu = 1.0 if name.endswith("mu=1") else 0.0
    work: dict[str, Any] = {"client_lr": rate, "steps": steps, "batch_size": None, "weighting": weighting}
    if name == "FedNova-VR":
        return algorithms.fednova_vr(**work)
    if name.startswith("FedNova"):
        return algorithms.fednova(prox_mu=mu, **work)
    return algorithms.fedprox(prox_mu=mu, **work) if mu else algorithms.fedavg(**work)
