"""An optimizer's state as one vector, kept on the client from one session to the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from fedpace.compute.device import host_array, host_tensor
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
        """Give a new optimizer the state that another one had; it crosses to a device in one piece."""
        there = None if self.flat.device.is_host else self.flat.device.upload(memory)
        at, own = 0, {id(p) for group in optimizer.param_groups for p in group["params"]}
        for p, entries in zip(self.flat.parameters, self.entries, strict=True):
            present, at, state = bool(memory[at]), at + 1, {}
            for entry in entries:
                span = slice(at, at + entry.size)
                state[entry.name] = _read(entry, memory[span], None if there is None else there[span])
                at = span.stop
            if present and id(p) in own:
                optimizer.state[p] = state

    def taken(self, optimizer: Optimizer) -> Vector:
        """The state that an optimizer has now; it comes from a device in one piece."""
        memory, at = np.zeros(self.size, self.flat.dtype), 0
        there: list[tuple[int, Tensor]] = []  # where it belongs, and what is not in main memory
        for p, entries in zip(self.flat.parameters, self.entries, strict=True):
            state = optimizer.state.get(p) or {}
            memory[at], at = bool(state), at + 1
            for entry in entries:
                value = state.get(entry.name)
                if isinstance(value, Tensor) and not value.is_cpu:
                    there.append((at, value.detach().reshape(-1)))
                elif value is not None:
                    memory[at : at + entry.size] = _written(value)
                at += entry.size
        self._bring(there, memory)
        return memory

    def _bring(self, there: list[tuple[int, Tensor]], memory: Vector) -> None:
        if not there:
            return
        at = np.concatenate([np.arange(low, low + part.numel()) for low, part in there])
        memory[at] = self.flat.device.download(
            torch.cat([part.type(self.flat.vector.dtype) for _, part in there])
        )


def _read(entry: StateEntry, here: Vector, there: Tensor | None) -> Any:
    """An entry from its numbers in main memory and on the device, wherever it was."""
    like = entry.like
    if not isinstance(like, Tensor):
        return None if like is None else type(like)(here[0])
    whole = host_tensor(here) if there is None or like.is_cpu else there.clone()
    return whole.reshape(like.shape).type(like.dtype)


def _written(value: Any) -> Any:
    return host_array(value).reshape(-1) if isinstance(value, Tensor) else value


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
