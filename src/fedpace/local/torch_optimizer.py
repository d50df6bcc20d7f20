"""Any optimizer of torch as the local rule, as one frozen value. (It names the optimizer; tasks import torch.)"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedpace.errors import require, require_flag
from fedpace.local.sgd import SGD, Steps
from fedpace.vector import python_value

_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")
_LITERAL = (str, int, float, bool, type(None))


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Torch:
    """Local training by an optimizer of torch.

    `Torch("torch.optim.AdamW", epochs=1, lr=0.01)`: a dotted name of `torch.optim`, or of a class in a module that is
    imported already, and literal arguments for it. `steps`, `epochs` and `batch_size` are those of `SGD`.

    Sign: a client sends delta = y − x, as with SGD.
    Its update is no weighted sum of gradients, so there is no a_i: rules that divide by ||a_i||_1 (Normalised) and
    corrections (SCAFFOLD, FedNova-VR) are refused.

    `keep_state`: a session continues with the optimizer state of the client's last acknowledged one (moments, step
    counts); it never leaves the client. False: every session starts with a fresh state.
    """

    optimizer: str
    steps: Steps | None
    epochs: int | tuple[int, int] | None
    batch_size: int | None
    keep_state: bool
    arguments: tuple[tuple[str, Any], ...]

    def __init__(
        self,
        optimizer: str,
        *,
        steps: Any = None,
        epochs: Any = None,
        batch_size: int | None = 10,
        keep_state: bool = False,
        **arguments: Any,
    ) -> None:
        good = isinstance(optimizer, str) and _DOTTED.fullmatch(optimizer) is not None
        require(good, "Torch.optimizer", optimizer, "a dotted name such as torch.optim.AdamW")
        require_flag(keep_state, "Torch.keep_state")
        work = SGD(1.0, steps=steps, epochs=epochs, batch_size=batch_size)
        plain = tuple((name, python_value(value)) for name, value in arguments.items())
        for name, value in plain:
            require(
                _is_literal(value), f"Torch: {name}", value, "a literal: a number, text, or a tuple of them"
            )
        own = (optimizer, work.steps, work.epochs, work.batch_size, keep_state, plain)
        for name, value in zip(self.__slots__, own, strict=True):
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        shown = [
            (name, getattr(self, name)) for name in ("steps", "epochs") if getattr(self, name) is not None
        ]
        kept = [("keep_state", True)] if self.keep_state else []
        said = ", ".join(
            f"{name}={value!r}"
            for name, value in [*shown, ("batch_size", self.batch_size), *kept, *self.arguments]
        )
        return f"Torch({self.optimizer!r}, {said})"

    @property
    def lr(self) -> float:
        """That of the arguments, for notes; NaN where the optimizer's own is taken."""
        return float(dict(self.arguments).get("lr", math.nan))

    # ------------------------------------------------------------ how much work, as with SGD

    @property
    def _work(self) -> SGD:
        return SGD(1.0, steps=self.steps, epochs=self.epochs, batch_size=self.batch_size)

    def work(
        self, client: int, round: int, samples: float, seconds_per_step: float, rng: np.random.Generator
    ) -> int:
        """K_i: how many local steps this session takes."""
        return self._work.work(client, round, samples, seconds_per_step, rng)

    def max_work(self, samples: float) -> int | None:
        """The largest number of steps that a session can take."""
        return self._work.max_work(samples)

    def outcomes(self, client: int, samples: float) -> tuple[int, ...] | None:
        """The step counts a session may have, all equally likely."""
        return self._work.outcomes(client, samples)

    @property
    def random_work(self) -> bool:
        """Whether `work` draws from its generator."""
        return self._work.random_work

    def batches(self, samples: float) -> int:
        """Steps that make one pass: the last batch may be partial."""
        return self._work.batches(samples)


def _is_literal(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_literal, value))
    return isinstance(value, _LITERAL)
