"""Clients that train all the time.

DeFedAvg: delayed federated averaging, nIID and IID forms. AsySG: Lian et al., NeurIPS 2015.
FAVANO: Leconte et al. 2023. QuAFL: Zakerinia et al. 2022.
"""

from __future__ import annotations

from typing import Any, Unpack

from fedpace.aggregate import Pooled
from fedpace.algorithm import Algorithm
from fedpace.algorithms.named import named
from fedpace.algorithms.parameters import (
    LocalTraining,
    OneStep,
    Select,
    ServerMomentum,
    momentum_of,
    training,
)
from fedpace.errors import require
from fedpace.pace import Arrivals, Interrupting, Polled, selection
from fedpace.server_opt import Momentum


class ContinuousMomentum(LocalTraining, ServerMomentum, total=False):
    """Local training and general momentum on the server."""


class Interrupted(LocalTraining, total=False):
    """Local training until the server interrupts it."""

    clients_per_round: int
    server_period: float | None
    select: Select


@named()
def defedavg_niid(
    *,
    draws: int = 10,
    reuse_model: bool = False,
    energy_saving: bool = False,
    select: Select = "replacement",
    **shared: Unpack[ContinuousMomentum],
) -> Algorithm:
    """Sample clients with replacement and aggregate their stored updates: unbiased under any device speeds.

    >>> from fedpace import algorithms
    >>> algorithms.defedavg_niid(draws=20).pace
    Polled(draws=20, select=WithReplacement(), reuse_model=False, energy_saving=False)
    """
    pace = Polled(draws, selection(select), reuse_model, energy_saving)
    return Algorithm(pace=pace, **training(shared), server_opt=momentum_of(shared))


@named()
def defedavg_iid(
    *,
    buffer: int = 10,
    reuse_model: bool = False,
    distinct: bool = False,
    **shared: Unpack[ContinuousMomentum],
) -> Algorithm:
    """Aggregate the first `buffer` updates to arrive, from any clients: fast, for iid data."""
    pace = Arrivals(buffer, reuse_model, distinct)
    return Algorithm(pace=pace, **training(shared), server_opt=momentum_of(shared))


@named(client_lr=1.0)
def asysg(
    *,
    buffer: int = 10,
    server_lr: float = 0.1,
    aggregate: str = "mean",
    reuse_model: bool = False,
    **shared: Unpack[OneStep],
) -> Algorithm:
    """Asynchronous SGD: the server takes a step of size `server_lr` per `buffer` gradients."""
    require(aggregate in ("mean", "sum"), "aggregate", aggregate, "mean or sum")
    opt = Momentum(server_lr if aggregate == "mean" else server_lr * buffer)
    one = training({**shared, "steps": 1, "epochs": None})
    return Algorithm(pace=Arrivals(buffer, reuse_model), **one, server_opt=opt)


@named(clients_per_round=10, server_period=None)
def favano(*, rescale: str = "steps", **shared: Unpack[Interrupted]) -> Algorithm:
    """Interrupt clients at fixed server intervals and rescale their partial local progress.

    `steps` (or `epochs`) is the maximum of a session; 50 steps by default.
    """
    return Algorithm(**_interrupting(shared, averaging=False), aggregate=Pooled(rescale))


@named(clients_per_round=10, server_period=None)
def quafl(**shared: Unpack[Interrupted]) -> Algorithm:
    """Interrupt clients at fixed server intervals; server and clients average each other's models.

    `steps` (or `epochs`) is the maximum of a session; 50 steps by default.
    """
    return Algorithm(**_interrupting(shared, averaging=True), aggregate=Pooled(None))


def _interrupting(given: Interrupted, *, averaging: bool) -> dict[str, Any]:
    select = selection(given["select"])
    pace = Interrupting(given["clients_per_round"], given["server_period"], averaging, select)
    open_end = given["steps"] is None and given["epochs"] is None
    limited: Interrupted = {**given, "steps": 50} if open_end else given
    return {"pace": pace, **training(limited)}
