"""A network of one's own on a named data set."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fedpace.errors import ConfigError, require
from fedpace.random import stream
from fedpace.tasks.fingerprint import sha256
from fedpace.tasks.networks.dense import Shape
from fedpace.tasks.signature import signature


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class OwnNetwork:
    """A module, or what makes one: a class or a function, of (shape, classes) or of nothing.

    A module starts at its present parameters; what makes one is called with torch's generator seeded by the run.
    """

    given: nn.Module | Callable[..., nn.Module]
    place: str = ""  # module:function, where it has one

    def build(self, shape: Shape, classes: int, seed: int) -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(stream(seed, "init").integers(2**63)))
            made = (
                copy.deepcopy(self.given) if isinstance(self.given, nn.Module) else self._made(shape, classes)
            )
            require(
                isinstance(made, nn.Module), "model", made, "a torch.nn.Module, or a function that makes one"
            )
            _require_fit(made, shape, classes)
        return made

    def _made(self, shape: Shape, classes: int) -> Any:
        make: Any = self.given
        try:
            takes_two = len(inspect.signature(make).parameters) >= 2
        except ValueError:
            takes_two = False
        return make(shape, classes) if takes_two else make()

    def __repr__(self) -> str:
        if self.place:
            return repr(self.place)
        name = type(self.given).__name__ if isinstance(self.given, nn.Module) else self.given.__name__
        digest = sha256(np.frombuffer(signature(self.given).encode(), np.uint8))[:16]
        return f"<{name}, sha256 {digest}>"


@torch.no_grad()
def _require_fit(module: nn.Module, shape: Shape, classes: int) -> None:
    """One score per class for a sample of this shape."""
    try:
        scores = copy.deepcopy(module).cpu().eval()(torch.zeros(1, *shape))
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        why = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ConfigError(f"model does not take samples of shape {shape}: {why}") from error
    fits = isinstance(scores, Tensor) and scores.shape == (1, classes)
    got = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
    require(fits, "output of the model", got, f"one score per class, (1, {classes}) for one sample")
