"""Adaptive server optimizers. Reddi et al., ICLR 2021 (FedOpt); Wang, Lin & Chen, ICML 2022 (FedAMS)."""

from __future__ import annotations

from typing import Unpack

from fedpace.algorithm import Algorithm
from fedpace.algorithms.named import named
from fedpace.algorithms.parameters import (
    Synchronous,
    SynchronousAdam,
    SynchronousAMSGrad,
    adam_of,
    amsgrad_of,
    rounds,
)
from fedpace.server_opt import Adagrad, Adam, Yogi


@named(server_lr=0.03)
def fedadam(**shared: Unpack[SynchronousAdam]) -> Algorithm:
    """Adam on the mean displacement, without bias correction."""
    return Algorithm(**rounds(shared), server_opt=Adam(*adam_of(shared)))


@named(server_lr=0.03)
def fedyogi(**shared: Unpack[SynchronousAdam]) -> Algorithm:
    """Yogi: like FedAdam, with a second moment that moves by bounded steps."""
    return Algorithm(**rounds(shared), server_opt=Yogi(*adam_of(shared)))


@named()
def fedadagrad(*, server_lr: float = 0.03, eps: float = 1e-3, **shared: Unpack[Synchronous]) -> Algorithm:
    """Adagrad: steps shrink with the sum of squared displacements."""
    return Algorithm(**rounds(shared), server_opt=Adagrad(server_lr, eps=eps))


@named(server_lr=0.03)
def fedams(**shared: Unpack[SynchronousAMSGrad]) -> Algorithm:
    """AMSGrad on the server, max stabilised (option 1) or with eps under the root (option 2)."""
    return Algorithm(**rounds(shared), server_opt=amsgrad_of(shared))
