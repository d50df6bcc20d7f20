"""FedDyn: the clients' half of dynamic regularisation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fedpace.local.personal.parts import Parts
from fedpace.vector import Layout, Vector, freeze

if TYPE_CHECKING:
    from fedpace.compute.protocol import Request
    from fedpace.local.personal.protocol import Solve


@dataclass(frozen=True, slots=True)
class DynamicTerm:
    """FedDyn: a linear term that each client learns, so that client optima agree with the global one.

    Acar et al., "Federated Learning Based on Dynamic Regularization", arXiv:2111.04263, Algorithm 1, with w the model
    received, α the local rule's `prox_mu` and g_i = 0 at first:

        w_i ≈ argmin F_i(y) − ⟨g_i, y⟩ + α/2 ||y − w||²
        g_i ← g_i − α (w_i − w)                              the client's memory

    `aggregate.DynamicMean` is the server's half. Nothing but w_i − w is sent.
    Sign: delta = w_i − w. Departures: the minimiser is approached by the local rule's steps, as in the paper's
    experiments.
    """

    own_models: ClassVar[bool] = False
    paired = True  # with the server's sum: if one of them is lost, both begin anew

    def parts(self, layout: Layout, batch_norm: Sequence[str]) -> Parts:
        return Parts(layout)

    def memory_size(self, parts: Parts) -> int:
        return parts.whole.size

    def beside(self, steps: int, work: Callable[[Any], int]) -> int:
        return 0

    def train(self, request: Request, parts: Parts, initial: Vector, solve: Solve) -> tuple[Vector, Vector]:
        g = np.zeros_like(request.start) if request.memory is None else request.memory
        delta = solve(replace(request, correction=freeze(-g), memory=None))
        return delta, g - request.local.prox_mu * delta

    def model(self, x: Vector, memory: Vector | None, parts: Parts, initial: Vector) -> Vector:
        return x
