"""Unequal local work.

FedProx: Li et al., MLSys 2020. FedNova and FedNova-VR: Wang et al., NeurIPS 2020.
SCAFFOLD: Karimireddy et al., ICML 2020.
"""

from __future__ import annotations

from typing import Any, Unpack

from fedpace.aggregate import Normalised
from fedpace.algorithm import Algorithm
from fedpace.algorithms.named import named
from fedpace.algorithms.parameters import SynchronousMomentum, momentum_of, rounds
from fedpace.local import Scaffold, VarianceReduced


class NormalisedAveraging(SynchronousMomentum, total=False):
    """Rounds whose updates are divided by the local work, and general momentum on the server."""

    tau_eff: str | float
    momentum: float
    prox_mu: float


NOVA = {"weighting": "samples", "tau_eff": "population", "momentum": 0.0, "prox_mu": 0.0}


@named(weighting="samples")
def fedprox(
    *, prox_mu: float = 0.01, momentum: float = 0.0, **shared: Unpack[SynchronousMomentum]
) -> Algorithm:
    """FedAvg with a proximal term towards the received model in local training; prox_mu=0 is FedAvg."""
    rules = rounds(shared, prox_mu=prox_mu, momentum=momentum)
    return Algorithm(**rules, server_opt=momentum_of(shared))


@named(**NOVA)
def fednova(**shared: Unpack[NormalisedAveraging]) -> Algorithm:
    """Average normalised updates: removes the objective inconsistency of unequal local steps.

    `tau_eff`: "population" (the same for every round, so that sampled rounds are unbiased), "sampled" (of a round's
    own clients, as the listing has it), "steps" or a number. `momentum` is the clients', `beta` and `nu` the
    server's; both together are the paper's hybrid (its undamped factor gmf is beta = gmf, nu = 1,
    server_lr = 1 / (1 - gmf)).

    >>> import fedpace
    >>> task = fedpace.tasks.quadratics([1.0, 2.0, 6.0])
    >>> fednova = fedpace.algorithms.fednova(client_lr=0.01, steps=[1, 5, 25], weighting="uniform")
    >>> run = fedpace.simulate(fednova, task, rounds=400)
    >>> round(float(run.model[0]), 1), float(task.optimum[0])
    (2.9, 3.0)
    """
    return Algorithm(**_normalised(shared), server_opt=momentum_of(shared))


@named(**NOVA)
def fednova_vr(*, accumulate: bool = True, **shared: Unpack[NormalisedAveraging]) -> Algorithm:
    """FedNova with cross-client variance reduction; `accumulate=False`: the printed rule, which misses the optimum."""
    correction = VarianceReduced(accumulate, shared["weighting"])
    return Algorithm(**_normalised(shared), correction=correction, server_opt=momentum_of(shared))


@named()
def scaffold(**shared: Unpack[SynchronousMomentum]) -> Algorithm:
    """Control variates correct every local gradient towards the mean over clients: removes client drift."""
    return Algorithm(**rounds(shared), correction=Scaffold(), server_opt=momentum_of(shared))


def _normalised(given: NormalisedAveraging) -> dict[str, Any]:
    rules = rounds(given, momentum=given["momentum"], prox_mu=given["prox_mu"])
    return {**rules, "aggregate": Normalised(given["tau_eff"], given["weighting"])}
