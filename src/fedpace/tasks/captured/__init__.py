"""Gradients of any module without Python and autograd: the operations of one pass, recorded once and repeated.

A module's forward and backward pass is a list of torch operations. It is recorded on one batch, shapes and memory
are planned once, and every further full batch repeats the list: the same operations on the same numbers, without
the module's Python code, the graph of autograd and the allocation of its tensors. What cannot be repeated is found
out before: a module that keeps state in Python, decides by values, or takes part in anything but plain tensors is
trained by autograd as it stands. The choice depends on the module, its loss and the first client's data alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedpace.tasks.batches import Positions
from fedpace.tasks.captured.copies import without_copies
from fedpace.tasks.captured.operations import compiled_for
from fedpace.tasks.captured.plan import ReplayedPass, planned
from fedpace.tasks.captured.purity import python_state, require_plain
from fedpace.tasks.captured.record import Recording, Unfit, memory, record
from fedpace.tasks.captured.roles import signature, steps_of
from fedpace.tasks.examples import Batch, Examples
from fedpace.tasks.fast.first_use import announced
from fedpace.tasks.flat import FlatModule
from fedpace.tasks.objective import Objective
from fedpace.vector import Vector

__all__ = ["ReplayedPass", "Replays", "trial_of"]

MAX_PARAMETERS = 30_000_000  # beyond it arithmetic is all there is, and a recording holds a second gradient
TRIALS = 4  # batches, of which a replay must be right on one
MAX_PLANS = 4  # sizes of batches whose plans are kept
COMPILING_S = 1.2  # of a loop, at its first use on a machine
# Of a gradient's length: a replay that is further off is wrong.
NEAR = {torch.float32: 1e-3, torch.float64: 1e-9}

Trial = Callable[[Positions], Batch]  # a batch of the first client's samples at these positions


class Replays:
    """The plans of one module, by the size of their batches; made when first asked for."""

    def __init__(self, flat: FlatModule, objective: Objective, trial: Trial, initial: Vector) -> None:
        self.flat, self.objective, self._trial, self._initial = flat, objective, trial, initial
        self._plans: dict[int, ReplayedPass | None] = {}
        self.reason = ""  # why there are none

    def plan(self, size: int) -> ReplayedPass | None:
        """For batches of `size` samples; the parameters and buffers of the module are then the initial ones."""
        if size not in self._plans:
            if len(self._plans) == MAX_PLANS:
                del self._plans[next(iter(self._plans))]
            self._plans[size] = self._made(size)
        return self._plans[size]

    def _made(self, size: int) -> ReplayedPass | None:
        try:
            return self._tried(size)
        except Unfit as why:
            self.reason = str(why)
        except Exception as error:  # of torch, on what only autograd can do
            self.reason = f"{type(error).__name__}: {error}"
        return None

    def _tried(self, size: int) -> ReplayedPass:
        if self.flat.layout.size > MAX_PARAMETERS:
            raise Unfit("it is large")
        require_plain(self.flat.module)
        first, other = (self._trial(at) for at in (np.arange(size), -1 - np.arange(size)))
        recording = self._recorded(first)
        moving = {memory(self.flat.vector), *map(memory, self.flat.module.buffers())}
        steps = without_copies(steps_of(recording, moving), recording)
        if signature(recording) != signature(self._recorded(other)):
            raise Unfit("two batches take different ways")
        plan = planned(recording, steps, *self.flat.gradient_memory())
        shifted = (self._trial(np.arange(size) + size * k) for k in range(1, TRIALS))
        with announced(*compiled_for(steps), seconds=COMPILING_S):
            self._check(plan, (other, first, *shifted))
        return plan

    def _recorded(self, batch: Batch) -> Recording:
        """One pass from the initial parameters, which must leave no trace in Python."""
        self.flat.reset(self._initial)
        with self.flat.device.seeded(0):
            before = python_state(self.flat.module, self.objective)
            recording = record(self._loss, self.flat.parameters, batch)
            if python_state(self.flat.module, self.objective) != before:
                raise Unfit("its forward pass changes attributes")
        return recording

    def _check(self, plan: ReplayedPass, batches: Iterable[Batch]) -> None:
        """A replay must give the gradient of autograd.

        On one batch is enough: on others a unit may lie so near the kink of a ReLU that rounding decides.
        """
        if not any(self._agrees(plan, batch) for batch in batches):
            raise Unfit("a replay differs from autograd")

    def _agrees(self, plan: ReplayedPass, batch: Batch) -> bool:
        self.flat.reset(self._initial)
        with self.flat.device.seeded(0):
            found = plan(batch).clone()
        self.flat.reset(self._initial)
        with self.flat.device.seeded(0):
            expected = self.flat.gradient(self._loss(batch))
        apart = torch.linalg.vector_norm(found - expected)
        return bool(apart <= NEAR[expected.dtype] * torch.linalg.vector_norm(expected))

    def _loss(self, batch: Any) -> Tensor:
        with torch.enable_grad():
            return self.objective(self.flat.module, batch)


def trial_of(examples: Examples, form: Callable[[Tensor], Tensor]) -> Trial:
    """Batches of these samples at any positions, however few there are."""

    def trial(positions: Positions) -> Batch:
        inputs, targets = examples.take(positions % len(examples))
        return form(inputs), targets

    return trial
