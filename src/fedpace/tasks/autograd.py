"""Local training by autograd, for any module: one batch, one gradient, one step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from fedpace.errors import require
from fedpace.local import Stopped, Torch
from fedpace.tasks.descend import descend
from fedpace.tasks.examples import Batch, Examples, Tensors
from fedpace.tasks.fast.order import planned
from fedpace.tasks.flat import FlatModule
from fedpace.tasks.images_last import as_given, can_be_last, channels_last
from fedpace.tasks.kept_state import KeptState
from fedpace.tasks.objective import Objective
from fedpace.tasks.optimise import made, optimise
from fedpace.tasks.placed import session_batches
from fedpace.tasks.scaling import LossScale
from fedpace.vector import Vector

if TYPE_CHECKING:
    from fedpace.compute.protocol import Request
    from fedpace.tasks.captured import ReplayedPass, Replays

TRIED = 2  # samples of the batch that shows whether a module can be replayed


class AutogradSteps:
    """The reference loop of one module.

    `trial` are samples, and parameters, to find out with whether images may have their channels last and whether steps
    can be replayed; None: neither is tried, so that networks with published numbers keep their bits.
    """

    def __init__(
        self, flat: FlatModule, objective: Objective, trial: tuple[Examples, Vector] | None = None
    ) -> None:
        self.flat, self.objective, self.device = flat, objective, flat.device
        self.form: Callable[[Tensor], Tensor] = as_given
        self._replays: Replays | None = None
        if trial is not None:
            self._try(*trial)
        self._kept: KeptState | None = None  # of the last rule

    def _try(self, examples: Examples, initial: Vector) -> None:
        if can_be_last(self.flat, self.objective, examples):
            self.form = channels_last
        if isinstance(examples, Tensors):
            from fedpace.tasks.captured import Replays, trial_of  # and with it numba

            self._replays = Replays(self.flat, self.objective, trial_of(examples, self.form), initial)

    @cached_property
    def name(self) -> str:
        able = self._replays is not None and self._replays.plan(TRIED) is not None
        return "replayed steps" if able else "autograd steps"

    def train(
        self,
        request: Request,
        examples: Callable[[], Examples],
        stopped: Stopped | None,
        replay: bool = False,
    ) -> tuple[Vector, int]:
        """(delta, steps taken): all steps, or those before it was stopped; `replay` as far as that can be done."""
        start = np.asarray(request.start, self.flat.dtype)
        if isinstance(request.local, Torch):
            return self._optimised(request, start, examples(), stopped)
        plan = self._plan(request) if replay else None
        gradients = self._gradients(request, examples(), plan)
        self.flat.reset(start)
        correction = self._tensor(request.correction)
        frozen = request.frozen
        taken = descend(
            gradients, self.flat.vector, request.local, request.steps, correction, stopped, frozen
        )
        return self.device.moved(self.flat.vector, start), taken

    def _optimised(
        self, request: Request, start: Vector, examples: Examples, stopped: Stopped | None
    ) -> tuple[Vector, int]:
        """The same by an optimizer of torch."""
        fine = not self.device.scales_loss
        require(
            fine, "precision", "fp16", f"float32 or bf16 with {request.local}, whose steps have no loss scale"
        )
        batches, kept = self._batches(request, examples), self.kept_state(request.local)
        self.flat.reset(start)
        optimizer = made(request.local, self.flat.outside(request.frozen))
        if kept is not None and request.memory is not None:
            kept.put(request.memory, optimizer)
        taken = optimise(
            lambda: partial(self._loss, next(batches)), self.flat, optimizer, request.steps, stopped
        )
        delta = self.device.moved(self.flat.vector, start)
        return delta if kept is None else np.concatenate([delta, kept.taken(optimizer)]), taken

    def kept_state(self, local: Torch) -> KeptState | None:
        """The optimizer state that sessions of this rule keep; None if they keep none."""
        if not local.keep_state:
            return None
        if self._kept is None or self._kept.local != local:
            self._kept = KeptState(local, self.flat)
        return self._kept

    def _plan(self, request: Request) -> ReplayedPass | None:
        """For full batches; the others, which may be of any size, are left to autograd."""
        size = request.local.batch_size
        return None if self._replays is None or size is None else self._replays.plan(size)

    def _gradients(
        self, request: Request, examples: Examples, plan: ReplayedPass | None
    ) -> Callable[[], Tensor]:
        """The stochastic gradient of every next batch, at what the vector holds then."""
        batches = self._batches(request, examples)
        if plan is not None:
            return lambda: self._replayed(plan, next(batches))
        if self.device.scales_loss:
            scale = LossScale(self.flat)
            return lambda: scale.gradient(partial(self._loss, next(batches)))
        return lambda: self.flat.gradient(self._loss(next(batches)))

    def _replayed(self, plan: ReplayedPass, batch: Batch) -> Tensor:
        return plan(batch) if plan.takes(batch) else self.flat.gradient(self._loss(batch))

    def _batches(self, request: Request, examples: Examples) -> Iterator[Batch]:
        if not request.steps:
            return iter(())
        return session_batches(examples, *planned(request, len(examples)), self.form)

    def _loss(self, batch: Batch) -> Tensor:
        with torch.enable_grad(), self.device.arithmetic():
            return self.objective(self.flat.module, batch)

    def _tensor(self, correction: Vector | None) -> Tensor | None:
        return None if correction is None else self.device.upload(np.array(correction, self.flat.dtype))
