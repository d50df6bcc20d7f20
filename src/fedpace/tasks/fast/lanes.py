"""Many clients' local training as one computation, for any network: every tensor gets an axis of lanes in front.

For small networks that have no solver of their own the time goes into calling operations, not into
arithmetic; here a call serves up to `WIDTH` clients. Which sessions share a computation cannot be seen in
their results: there are always `WIDTH` lanes, those without a client are computed too, and a client always
has the same lane. Equal to the reference loop within rounding.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call, grad, vmap

from fedpace.local import SGD
from fedpace.tasks.batches import Positions
from fedpace.tasks.examples import Batch
from fedpace.tasks.flat import FlatModule
from fedpace.tasks.objective import Objective
from fedpace.vector import Vector

if TYPE_CHECKING:
    from fedpace.compute.protocol import Request

WIDTH = 16


def lane_of(request: Request) -> int:
    return request.client % WIDTH


class Lanes:
    """Local training of one network, `WIDTH` clients at a time."""

    def __init__(self, flat: FlatModule, objective: Objective):
        module, self.layout, self.dtype = flat.module, flat.layout, flat.dtype
        self.device = flat.device

        def loss(parameters: dict[str, Tensor], inputs: Tensor, targets: Tensor) -> Tensor:
            def network(*args: Any, **kwargs: Any) -> Any:
                return functional_call(module, parameters, args, kwargs)

            with self.device.arithmetic():
                value = objective.loss(objective.call(network, inputs), targets)  # type: ignore[arg-type]
            return self.device.check(value, flat.vector)

        self._gradients = vmap(grad(loss), randomness="error")
        self._y = flat.vector.new_zeros(WIDTH, self.layout.size)
        self._g = torch.zeros_like(self._y)
        self._masks: dict[tuple[int, ...], Tensor] = {}

    def works(self, batch: Batch) -> bool:
        """Whether this network can be computed in lanes, tried on one batch."""
        if not all(isinstance(part, Tensor) for part in batch):
            return False
        try:
            self._find_gradients(*(part.expand(WIDTH, *part.shape) for part in batch))
        except (RuntimeError, ValueError, TypeError, NotImplementedError):
            return False
        return True

    @torch.no_grad()
    def solve(
        self, requests: Sequence[Request], samples: Sequence[Batch], ends: Sequence[Positions]
    ) -> list[Vector]:
        """delta of each request; they have one local rule and different lanes.

        `samples` are all that a request's batches hold, one batch after another, and `ends` where each batch ends.
        """
        lanes = [lane_of(request) for request in requests]
        starts = [np.asarray(request.start, self.dtype) for request in requests]
        self._y.zero_()
        for lane, start in zip(lanes, starts, strict=True):
            self._y[lane] = self.device.model(start)
        rule = Moves(requests[0].local, self._y, self._corrections(requests))
        every_input, every_target = (side_by_side(lanes, parts) for parts in zip(*samples, strict=True))
        for k in range(max(request.steps for request in requests)):
            places = {
                lane: (int(own[k - 1]) if k else 0, int(own[k]))
                for lane, own in zip(lanes, ends, strict=True)
                if k < len(own)
            }
            for (low, high), members in _alike(places).items():
                found = self._find_gradients(every_input[:, low:high], every_target[:, low:high])
                self._g = torch.where(self._mask(members), found, self._g)
            rule.move(self._g, k, self._mask(places))
        moved = self.device.download(self._y)
        return [moved[lane] - start for lane, start in zip(lanes, starts, strict=True)]

    def _corrections(self, requests: Sequence[Request]) -> Tensor | None:
        if all(request.correction is None for request in requests):
            return None
        corrections = torch.zeros_like(self._y)
        for request in requests:
            if request.correction is not None:
                corrections[lane_of(request)] = self.device.upload(np.array(request.correction, self.dtype))
        return corrections

    def _find_gradients(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """The gradients of all lanes."""
        at = self.layout.offsets
        views = zip(self.layout.names, self.layout.shapes, at, at[1:], strict=False)
        parameters = {name: self._y[:, a:b].view(WIDTH, *shape) for name, shape, a, b in views}
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", UserWarning
            )  # of operations that torch cannot batch, and does in turn
            gradients = self._gradients(parameters, inputs, targets)
        return torch.cat([gradients[name].reshape(WIDTH, -1) for name in self.layout.names], 1)

    def _mask(self, lanes: Iterable[int]) -> Tensor:
        """True in these lanes; sent to the device once."""
        chosen = tuple(sorted(lanes))
        if chosen not in self._masks:
            mask = np.zeros((WIDTH, 1), bool)
            mask[list(chosen)] = True
            self._masks[chosen] = self.device.upload(mask)
        return self._masks[chosen]


def side_by_side(lanes: Sequence[int], parts: Sequence[Tensor]) -> Tensor:
    """Tensors of different lengths with an axis of lanes in front; zero where there is nothing."""
    longest = max(map(len, parts))
    together = parts[0].new_zeros(WIDTH, longest, *parts[0].shape[1:])
    for lane, part in zip(lanes, parts, strict=True):
        together[lane, : len(part)] = part
    return together


def _alike(places: Mapping[int, tuple[int, int]]) -> dict[tuple[int, int], list[int]]:
    """The lanes by where their batch lies."""
    lanes: dict[tuple[int, int], list[int]] = {}
    for lane, place in places.items():
        lanes.setdefault(place, []).append(lane)
    return lanes


class Moves:
    """Local steps of all lanes: the equations of `fedpace.tasks.descend`, one row per lane."""

    def __init__(self, local: SGD, y: Tensor, corrections: Tensor | None):
        self.local, self.y, self.corrections = local, y, corrections
        self.start = y.clone() if local.prox_mu else None
        self.buffer = torch.zeros_like(y) if local.momentum else None

    def move(self, g: Tensor, k: int, active: Tensor) -> None:
        """Step k of the active lanes; all are computed, so that a lane's arithmetic never depends on the others."""
        local, y = self.local, self.y
        if local.clip is not None:
            lengths = torch.linalg.vector_norm(g, dim=1, keepdim=True)
            g = torch.where(lengths > local.clip, g * (local.clip / lengths), g)
        if local.weight_decay:
            g = g + local.weight_decay * y
        if self.corrections is not None:
            g = g + self.corrections
        if self.buffer is not None:
            self.buffer = torch.where(active, local.momentum * self.buffer + g, self.buffer)
            g = g + local.momentum * self.buffer if local.nesterov else self.buffer
        if self.start is not None:
            g = g + local.prox_mu * (y - self.start)
        y.copy_(torch.where(active, y - local.rate(k) * g, y))
