"""Table 1 of FedNova's paper: test accuracy on CIFAR-10, VGG-11, 16 clients, Dirichlet 0.1, 100 rounds, three seeds."""

from __future__ import annotations

from collections.abc import Mapping

from fedpace.reproduce.experiment import Table
from fedpace.reproduce.fednova.testbeds import EPOCHS

PRINTED: Mapping[tuple[str, str], str] = {  # client optimizer, local work -> FedAvg → FedNova
    ("SGD", "E = 2"): "60.68 → 66.31",
    ("momentum", "E = 2"): "65.26 → 73.32",
    ("proximal", "E = 2"): "60.44 → 69.92",
    ("SGD", "E ~ U(2,5)"): "64.22 → 73.22",
    ("momentum", "E ~ U(2,5)"): "70.44 → 77.07",
    ("proximal", "E ~ U(2,5)"): "63.74 → 73.41",
    ("variance reduction", "E ~ U(2,5)"): "74.72 → 74.72",
    ("momentum and variance reduction", "E ~ U(2,5)"): "not defined → 79.19",
}
CAPTION = "Table 1 (CIFAR-10, VGG-11)"


def published(solver: str, epochs: str) -> str:
    """As in a row of the claims."""
    return f"{CAPTION}: {PRINTED[solver, epochs]} %"


def table() -> Table:
    solvers = list(dict.fromkeys(solver for solver, _ in PRINTED))
    rows = [(epochs, *(PRINTED.get((solver, epochs), "") for solver in solvers)) for epochs in EPOCHS]
    return Table("The paper's Table 1: VGG-11 on CIFAR-10, FedAvg → FedNova, %", ("", *solvers), rows)
