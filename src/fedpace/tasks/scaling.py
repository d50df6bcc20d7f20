"""Gradients in half precision: small ones would vanish below the smallest number, so the loss is scaled up."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from fedpace.tasks.flat import FlatModule

FIRST = 2.0**16


class LossScale:
    """Of one session. Where the scaled gradient is not finite the batch is computed again at half the scale.

    Departure: torch's GradScaler leaves such a step out and grows the scale again later; here every step is taken,
    so that a session has the steps it was asked for.
    """

    def __init__(self, flat: FlatModule) -> None:
        self.flat, self.value = flat, FIRST

    def gradient(self, loss: Callable[[], Tensor]) -> Tensor:
        while True:
            with torch.enable_grad():
                scaled = loss() * self.value
            g = self.flat.gradient(scaled)
            if self.value <= 1 or self.flat.device.number(torch.isfinite(g).all()):
                return g.div_(self.value)
            self.value /= 2
