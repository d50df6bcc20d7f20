"""Unequal local work.

FedProx: Li et al., MLSys 2020. FedNova and FedNova-VR: Wang et al., NeurIPS 2020.
SCAFFOLD: Karimireddy et al., ICML 2020.
"""

from __future__ import annotations

from typing import Unpack

from fedpace.aggregate import Normalised
from fedpace.algorithm import Algorithm
from fedpace.algorithms.named import named
from fedpace.algorithms.parameters import SynchronousMomentum, momentum_of, rounds
from fedpace.local import Scaffold, VarianceReduced


@named(weighting="samples")
def fedprox(
    *, prox_mu: float = 0.01, momentum: float = 0.0, **shared: Unpack[SynchronousMomentum]
) -> Algorithm:
    """FedAvg whose clients are pulled back to the model they received; prox_mu=0 is FedAvg."""
    rules = rounds(shared, prox_mu=prox_mu, momentum=momentum)
    return Algorithm(**rules, server_opt=momentum_of(shared))


@named(weighting="samples")
def fednova(
    *,
    tau_eff: str | float = "population",
    momentum: float = 0.0,
    prox_mu: float = 0.0,
    **shared: Unpack[SynchronousMomentum],
) -> Algorithm:
    """Average normalised updates, so that clients that do more steps do not pull the optimum to themselves.

    `tau_eff`: "population" (the same for every round, so that sampled rounds are unbiased), "sampled" (of a round's
    own clients, as the listing has it), "steps" or a number. `momentum` is the clients', `beta` and `nu` the
    server's; both together are the paper's hybrid (its undamped factor gmf is beta = gmf, nu = 1,
    server_lr = 1 / (1 - gmf)).
    """
    rules = rounds(shared, momentum=momentum, prox_mu=prox_mu)
    rules["aggregate"] = Normalised(tau_eff, shared["weighting"])
    return Algorithm(**rules, server_opt=momentum_of(shared))


@named(weighting="samples")
def fednova_vr(
    *,
    tau_eff: str | float = "population",
    momentum: float = 0.0,
    prox_mu: float = 0.0,
    accumulate: bool = True,
    **shared: Unpack[SynchronousMomentum],
) -> Algorithm:
    """FedNova with cross-client variance reduction; `accumulate=False` is the rule as printed, which stops short."""
    weighting, rules = shared["weighting"], rounds(shared, momentum=momentum, prox_mu=prox_mu)
    rules["aggregate"] = Normalised(tau_eff, weighting)
    correction = VarianceReduced(accumulate, weighting)
    return Algorithm(**rules, correction=correction, server_opt=momentum_of(shared))


@named()
def scaffold(**shared: Unpack[SynchronousMomentum]) -> Algorithm:
    """Control variates move every local gradient towards the mean of all clients', which removes client drift."""
    return Algorithm(**rounds(shared), correction=Scaffold(), server_opt=momentum_of(shared))
