"""Ditto: a personal model beside the global one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from fedpace.errors import require, require_number
from fedpace.local.personal.parts import Parts
from fedpace.local.sgd import SGD
from fedpace.vector import Layout, Vector, freeze, settle

if TYPE_CHECKING:
    from fedpace.compute.protocol import Request
    from fedpace.local.personal.protocol import Solve


@dataclass(frozen=True, slots=True)
class Ditto:
    """Each client trains a model of its own, v_i, near the global one, and takes part in training that as before.

    Li et al., "Ditto: Fair and Robust Federated Learning Through Personalization", arXiv:2012.04221, Algorithm 1,
    with w the model that it received:

        v_i ← v_i − η (∇F_i(v_i) + λ (v_i − w))              lam

    Since λ (v − w) = λ (v − v₀) + λ (v₀ − w), this is proximal SGD from v₀ = v_i with a constant correction.
    `local`: the rule of these steps; None: that of the global model, as many steps.
    Sign: delta = w_i − w, the global model's alone: its iterates are those of the same algorithm without Ditto.
    Departures: v_i starts at the first model that the client receives. Both models see the same order of samples.
    """

    lam: float = 0.1
    local: SGD | None = None

    own_models: ClassVar[bool] = True

    def __post_init__(self) -> None:
        settle(self)
        require_number(self.lam, "Ditto.lam", low=0, below=math.inf, allowed=">= 0")
        if self.local is not None:
            plain = isinstance(self.local, SGD) and self.local.momentum == 0
            require(plain, "Ditto.local", self.local, "SGD without momentum, or None")
            self._pulled(self.local)

    def parts(self, layout: Layout, batch_norm: Sequence[str]) -> Parts:
        return Parts(layout)

    def memory_size(self, parts: Parts) -> int:
        return parts.whole.size

    def beside(self, steps: int, work: Callable[[Any], int]) -> int:
        return steps if self.local is None else work(self.local)

    def train(self, request: Request, parts: Parts, initial: Vector, solve: Solve) -> tuple[Vector, Vector]:
        w, v = request.start, request.start if request.memory is None else request.memory
        shared = replace(request, memory=None, beside=0)
        own = replace(
            shared,
            start=v,
            version=-1,
            local=self._pulled(request.local if self.local is None else self.local),
            steps=request.beside,
            correction=freeze(self.lam * (v - w)),
        )
        return solve(shared), v + solve(own)

    def model(self, x: Vector, memory: Vector | None, parts: Parts, initial: Vector) -> Vector:
        return x if memory is None else memory

    def _pulled(self, local: SGD) -> SGD:
        return replace(local, prox_mu=self.lam)
