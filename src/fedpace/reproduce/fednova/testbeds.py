"""Data, networks, rates and local work of the FedNova experiments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedpace.reproduce.cell import NamedTask

SOLVERS = ("SGD", "momentum", "proximal")
EPOCHS: Mapping[str, int | tuple[int, int]] = {"E = 2": 2, "E ~ U(2,5)": (2, 5)}
PROX = {"E = 2": 0.005, "E ~ U(2,5)": 0.001}
RHO = 0.9  # the clients' momentum, and the server's
LAST = 3  # evaluations whose mean is a run's accuracy


@dataclass(frozen=True, slots=True)
class Testbed:
    """Data, network and rates of one set of runs."""

    task: NamedTask
    batch_size: int
    rate: float  # SGD and proximal; momentum uses two fifths of it, as in the paper (0.05 and 0.02)
    rounds: int
    evaluate_every: int
    solvers: tuple[str, ...] = SOLVERS
    seeds: int | None = None  # at most so many, where a run takes most of a minute

    def work(self, solver: str, epochs: str) -> dict[str, Any]:
        return {
            "client_lr": 0.4 * self.rate if solver == "momentum" else self.rate,
            "epochs": EPOCHS[epochs],
            "batch_size": self.batch_size,
            "momentum": RHO if solver == "momentum" else 0.0,
        }


BEDS: Mapping[str, Mapping[str, Testbed]] = {
    "quick": {
        "synthetic(1,1)": Testbed(NamedTask("synthetic", "natural", "softmax", 30), 20, 0.001, 100, 4),
        "digits": Testbed(NamedTask("digits", "dirichlet:0.1,min=10", "mlp", 16), 10, 0.03, 100, 4),
        "Fashion-MNIST": Testbed(
            NamedTask("fashion-mnist", "dirichlet:0.1,min=10", "mlp:32", 16),
            32,
            0.02,
            100,
            4,
            ("SGD", "momentum"),
            seeds=5,
        ),
    },
    "full": {
        "synthetic(1,1)": Testbed(NamedTask("synthetic", "natural", "softmax", 30), 20, 0.02, 200, 4),
        "CIFAR-10": Testbed(NamedTask("cifar10", "dirichlet:0.1,min=10", "vgg11", 16), 32, 0.05, 100, 2),
    },
}


def name_of(place: str, method: str, solver: str, epochs: str) -> str:
    return f"{place} {method}, {solver}, {epochs}"
