"""Tables and figures of the papers as commands, next to the published numbers.

An experiment is one module, in the folder of its paper or among our own: its setting, claims, published numbers, the
cells to run, and the checks that turn measurements into verdicts. `run` executes the cells that are not finished,
`page` writes the results.
"""

from __future__ import annotations

import importlib

from fedpace.errors import unknown
from fedpace.reproduce.experiment import EDITIONS, Reproduction

__all__ = ["EDITIONS", "NAMES", "Reproduction", "experiment"]

NAMES = {
    "objective-inconsistency": "exact limits of FedAvg, FedProx and FedNova on quadratics",
    "fednova-heterogeneous": "FedNova against FedAvg for three local solvers and unequal work",
    "fedgm-family": "FedAvg, FedAvgM and FedGM over a grid, two levels of heterogeneity",
    "fedgm-large-lr": "server rates at which FedAvg is unstable and FedGM is not",
    "fedgm-multistage": "stages derived from rates, against every constant rate",
    "fedgm-autonomous": "stale models, and local work chosen by the clients",
    "defedavg-table1": "virtual seconds to a target accuracy, six methods, n = 10 to 80",
    "defedavg-speedup": "rounds to a target against updates per step and local steps",
    "two-way-bits": "accuracy against real bytes and nominal bits, eleven algorithms",
    "two-way-defaults": "ablation behind two_way's defaults: tuned on separate tasks, tested on the pages' tasks",
    "ca2fl-accuracy": "FedBuff, CA2FL with caches of 32 to 2 bits, FedAsync; Dirichlet 0.3 and 0.1",
    "ca2fl-delay": "staleness over concurrency, buffer and delay distributions, against published and exact values",
    "ca2fl-sensitivity": "CA2FL and FedBuff over concurrency, buffer and delays: which loses less to staleness",
    "combined-methods": "cached calibration, multistage momentum and bidirectional compression, combined",
    "robustness": "ten aggregation rules against eight attacks, over the share of hostile clients",
}

_MODULES = {  # where the name is not folder-module
    "objective-inconsistency": "fednova.objective_inconsistency",
    "two-way-bits": "two_way.bits",
    "two-way-defaults": "two_way.defaults",
    "combined-methods": "own.combined_methods",
    "robustness": "own.robustness",
}
FORMER = {"what-none-has": "combined-methods"}  # names that experiments once had


def experiment(name: str) -> Reproduction:
    """The experiment of that name, or of that former name."""
    name = FORMER.get(name, name)
    if name not in NAMES:
        raise unknown("experiment", name, NAMES)
    usual = name.replace("-", ".", 1).replace("-", "_")
    module = importlib.import_module(f"fedpace.reproduce.{_MODULES.get(name, usual)}")
    found: Reproduction = module.EXPERIMENT
    return found
