"""The cells of the CA2FL experiments, at the rates in print and at those tuned for the network that is trained here.

The paper searches a grid of local and server rates for every method (appendix D.3); what it prints are the rates of its
CNN and ResNet-18. The quick edition has another network, so it tunes: FedBuff and CA2FL at 20 active clients and a
buffer of ten, for each split. By the rule that cut the grid, quantised caches take CA2FL's rates, FedAsync is tuned on
the first split, and other numbers of active clients, buffers and delays take the choice of their method.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fedpace.reproduce.ca2fl.methods import (
    BUFFER,
    CONCURRENCY,
    FEDASYNC,
    FRESH,
    L2,
    L2_BITS,
    METHODS,
    ONE,
    RatePair,
    rule,
)
from fedpace.reproduce.cell import Cell, NamedTask
from fedpace.reproduce.results import Results
from fedpace.reproduce.tuned_cells import at_tuned_rates
from fedpace.reproduce.tuning import Grid, final_accuracy
from fedpace.sim import Population, presets

ALPHAS = (0.3, 0.1)  # of the Dirichlet split
SERVER_RATES = (0.3, 1.0, 2.0)
MIXING_WEIGHTS = (0.1, 0.3, 0.9)
LOCAL_RATES = ("0.003", "0.01", "0.03", "0.1", "0.3")
READINGS = (ONE, FRESH, L2)  # other quantisers of two bits, at the first split
# the methods and splits of the tables of accuracies
COMPARED = (
    *((method, alpha) for alpha in ALPHAS for method in METHODS),
    *((method, ALPHAS[0]) for method in dict.fromkeys((*READINGS, *L2_BITS))),
)
LAST = 3  # evaluations whose mean is a run's accuracy


@dataclass(frozen=True, slots=True)
class CA2FLScale:
    model: str
    rounds: int
    evaluate_every: int
    target: float


Slots = tuple[int, int]  # active clients Mc, buffer M
# targets: the paper's, and as much below what FedBuff ends at on the seeds for tuning (43.4 %)
SCALES = {"quick": CA2FLScale("mlp:32", 100, 5, 0.43), "full": CA2FLScale("cnn_ca2fl", 500, 10, 0.5)}


def cell(
    edition: str,
    name: str,
    method: str,
    alpha: float,
    rates: RatePair | None = None,
    slots: Slots = (CONCURRENCY, BUFFER),
    population: Population | None = None,
) -> Cell:
    scale = SCALES[edition]
    # FedAsync takes a step per update: the same number of updates for all methods
    steps = BUFFER if method in FEDASYNC else 1
    return Cell(
        name=name,
        algorithm=rule(method, rates, *slots),
        task=NamedTask("cifar10", f"dirichlet:{alpha}", scale.model),
        population=population or presets.ca2fl(),
        rounds=steps * scale.rounds,
        evaluate_every=steps * scale.evaluate_every,
    )


def grid_of(method: str, alpha: float) -> Grid:
    """Where the rates of a method come from."""
    if method in FEDASYNC:
        return _grid(method, ALPHAS[0])
    return _grid("FedBuff" if method == "FedBuff" else "CA2FL", alpha)


def _grid(method: str, alpha: float) -> Grid:
    name = name_of(method, alpha)

    def tried(server: float, local: str) -> Cell:
        label = f"rates {name}: {server:g} {local}"
        return replace(cell("quick", label, method, alpha, RatePair(server, float(local))), seeds=1)

    rates = MIXING_WEIGHTS if method in FEDASYNC else SERVER_RATES
    return Grid(f"tuned {name}", rates, tried, final_accuracy(LAST), LOCAL_RATES)


def tuned_rates(method: str, alpha: float, known: Results) -> RatePair | None:
    """None before they were tuned: no seed chooses them and is judged."""
    chosen = grid_of(method, alpha).committed(known)
    return None if chosen is None else RatePair(chosen[0], float(chosen[1]))


def name_of(method: str, alpha: float) -> str:
    return f"{method}, alpha {alpha}"


def as_judged(results: Results) -> Results:
    """The accuracies at the tuned rates, once all methods have been run there."""
    return at_tuned_rates(results, (name_of(*where) for where in COMPARED))
