"""An optimizer's state as one vector, kept on the client from one session to the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from fedpace.errors import ConfigError, require
from fedpace.local import Torch
from fedpace.tasks.flat import FlatModule
from fedpace.tasks.optimise import made
from fedpace.vector import Vector


@dataclass(frozen=True, slots=True)
class StateEntry:
    """One tensor or number of a parameter's state."""

    name: str
    like: Tensor | float | None  # its shape, type and device; None: it stays None

    @property
    def size(self) -> int:
        return 0 if self.like is None else self.like.numel() if isinstance(self.like, Tensor) else 1


class KeptState:
    """The state of one optimizer on one module.

    For each parameter in turn: 1 if the optimizer has a state for it, else 0, then the entries of that state. What
    there is to keep is found out by one step on copies of the parameters.
    """

    def __init__(self, local: Torch, flat: FlatModule) -> None:
        self.local, self.flat = local, flat
        self.entries = _entries(local, flat.parameters)
        self.size = sum(1 + sum(entry.size for entry in each) for each in self.entries)

    def put(self, memory: Vector, optimizer: Optimizer) -> None:
        """Give a new optimizer the state that another one had."""
        at, own = 0, {id(p) for group in optimizer.param_groups for p in group["params"]}
        for p, entries in zip(self.flat.parameters, self.entries, strict=True):
            present, at, state = bool(memory[at]), at + 1, {}
            for entry in entries:
                state[entry.name] = self._read(entry, memory[at : at + entry.size])
                at += entry.size
            if present and id(p) in own:
                optimizer.state[p] = state

    def taken(self, optimizer: Optimizer) -> Vector:
        """The state that an optimizer has now."""
        pieces: list[Vector] = []
        for p, entries in zip(self.flat.parameters, self.entries, strict=True):
            state = optimizer.state.get(p)
            pieces.append(np.array([1.0 if state else 0.0], self.flat.dtype))
            for entry in entries:
                pieces.append(self._written(entry, state))
        return np.concatenate(pieces)

    def _read(self, entry: StateEntry, numbers: Vector) -> Any:
        if not isinstance(entry.like, Tensor):
            return None if entry.like is None else type(entry.like)(numbers[0])
        whole = torch.from_numpy(numbers.copy()).reshape(entry.like.shape)
        return whole.to(device=entry.like.device, dtype=entry.like.dtype)

    def _written(self, entry: StateEntry, state: Any) -> Vector:
        if not state or entry.like is None:
            return np.zeros(entry.size, self.flat.dtype)
        value = state[entry.name]
        if not isinstance(value, Tensor):
            return np.array([value], self.flat.dtype)
        return value.detach().cpu().numpy().reshape(-1).astype(self.flat.dtype)


def _entries(local: Torch, parameters: list[Tensor]) -> list[list[StateEntry]]:
    """What an optimizer keeps of each parameter, found by one step."""
    copies: list[Tensor] = [nn.Parameter(torch.zeros_like(p)) for p in parameters]
    optimizer = made(local, copies)
    settings = _settings(optimizer)
    for p in copies:
        p.grad = torch.ones_like(p)
    optimizer.step(lambda: 0.0)
    entries = [[_entry(local, *item) for item in sorted(optimizer.state.get(p, {}).items())] for p in copies]
    outside = f"False: {local.optimizer} keeps values outside its state"
    require(_settings(optimizer) == settings, "Torch.keep_state", True, outside)
    nothing = f"False: {local.optimizer} with these arguments has no state"
    require(any(entry.size for each in entries for entry in each), "Torch.keep_state", True, nothing)
    return entries


def _settings(optimizer: Optimizer) -> list[dict[str, Any]]:
    """The groups' options without their parameters."""
    return [
        {name: value for name, value in group.items() if name != "params"} for group in optimizer.param_groups
    ]


def _entry(local: Torch, name: str, value: Any) -> StateEntry:
    plain = value is None or (isinstance(value, int | float) and not isinstance(value, bool))
    if plain or (isinstance(value, Tensor) and not value.is_complex()):
        return StateEntry(name, value)
    raise ConfigError(
        f"Torch.keep_state must be False: the state {name!r} of {local.optimizer} is neither a tensor nor a number"
    )
