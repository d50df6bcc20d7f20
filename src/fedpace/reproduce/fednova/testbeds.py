"""Data, networks, rates and local work of the FedNova experiments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedpace import algorithms
from fedpace.algorithm import Algorithm
from fedpace.reproduce.cell import Cell, NamedTask
from fedpace.reproduce.outcome import Outcome

METHODS = ("FedAvg", "FedNova")
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
    rate: float  # SGD and proximal
    rounds: int
    evaluate_every: int
    solvers: tuple[str, ...] = SOLVERS
    seeds: int | None = None  # at most so many at the fixed rate, where a run takes most of a minute
    momentum_rate: float | None = None  # else two fifths of the other, as in the paper (0.05 and 0.02)
    tried: tuple[float, ...] = (0.005, 0.01, 0.02, 0.05, 0.08)  # rates of the paper's grid
    tuned_on: tuple[int, ...] = (1000, 1001, 1002, 1003)  # seeds: test sets are small
    data_sets: range = range(0)  # where every seed draws other data: seeds that have rates of their own

    def work(self, solver: str, epochs: str) -> dict[str, Any]:
        with_momentum = 0.4 * self.rate if self.momentum_rate is None else self.momentum_rate
        return {
            "client_lr": with_momentum if solver == "momentum" else self.rate,
            "epochs": EPOCHS[epochs],
            "batch_size": self.batch_size,
            "momentum": RHO if solver == "momentum" else 0.0,
        }


BEDS: Mapping[str, Mapping[str, Testbed]] = {
    "quick": {
        "synthetic(1,1)": Testbed(
            NamedTask("synthetic", "natural", "softmax", 30),
            20,
            0.001,
            100,
            4,
            tried=(0.000313, 0.00125, 0.005, 0.02, 0.08, 0.32),  # the paper has 0.02 here
            tuned_on=(1000, 1001),
            data_sets=range(10, 20),  # 0 to 9 were looked at while the protocol changed
        ),
        "digits": Testbed(NamedTask("digits", "dirichlet:0.1,min=10", "mlp", 16), 10, 0.03, 100, 4),
        "Fashion-MNIST": Testbed(
            NamedTask("fashion-mnist", "dirichlet:0.1,min=10", "mlp:32", 16),
            32,
            0.02,
            100,
            4,
            ("SGD", "momentum"),
            seeds=5,
            tuned_on=(1000, 1001),
        ),
    },
    "full": {
        "synthetic(1,1)": Testbed(NamedTask("synthetic", "natural", "softmax", 30), 20, 0.02, 200, 4),
        "CIFAR-10": Testbed(NamedTask("cifar10", "dirichlet:0.1,min=10", "vgg11", 16), 32, 0.05, 100, 2),
    },
}


def name_of(place: str, method: str, solver: str, epochs: str) -> str:
    return f"{place} {method}, {solver}, {epochs}"


def is_synthetic(place: str) -> bool:
    """Where Figure 7 is run, too."""
    return place.startswith("synthetic")


def rule(method: str, solver: str, epochs: str, bed: Testbed) -> Algorithm:
    work, mu = bed.work(solver, epochs), PROX[epochs] if solver == "proximal" else 0.0
    if method == "FedNova":
        return algorithms.fednova(prox_mu=mu, **work)
    if mu:
        return algorithms.fedprox(prox_mu=mu, **work)
    return algorithms.fedavg(weighting="samples", **work)


def cell(label: str, algorithm: Algorithm, bed: Testbed, by_seed: tuple[Algorithm, ...] = ()) -> Cell:
    return Cell(
        name=label,
        algorithm=algorithm,
        by_seed=by_seed,
        task=bed.task,
        rounds=bed.rounds,
        evaluate_every=bed.evaluate_every,
        training_loss=True,
        seeds=len(by_seed) or bed.seeds,
        first_seed=bed.data_sets.start if by_seed else 0,
    )


def rounds_to(outcome: Outcome, level: float, most: int | None = None) -> int:
    """The first evaluation whose mean with those before it is at this accuracy; else `most`, or the last of all."""
    values = outcome.values()
    means = [sum(values[at - LAST : at]) / LAST for at in range(LAST, len(values) + 1)]
    at = next((at for at, mean in enumerate(means, LAST - 1) if mean >= level), None)
    if at is None:
        return outcome.points[-1].version if most is None else most
    return outcome.points[at].version
