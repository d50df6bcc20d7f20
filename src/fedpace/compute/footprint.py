"""How much memory a run needs, from its parts, before it starts.

Counted is what is certain to be held at once, an estimate from below; but memories of clients are counted for as many
as can have taken part, and a short run may have fewer. Vectors are counted by building every rule's state for a tiny
model, so a rule of a stranger's is counted as well; what its aggregation keeps of each client is not.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from fedpace.aggregate import Cached
from fedpace.algorithm import Algorithm
from fedpace.compute.available import available_bytes
from fedpace.compute.protocol import Task, memory_size
from fedpace.compute.queues import waiting_results
from fedpace.errors import ConfigError
from fedpace.link import as_uplink
from fedpace.link.protocol import Context

TINY = 4096  # parameters of the model that stands for the real one
TASK = 3  # model sizes: the initial model, the one that is trained, its gradient
STEP = 3  # the model, the next one, the sum of updates
WORKER = 3  # what a worker process adds: the model that is trained, its gradient, a result on its way
KEPT = "in memory; ca2fl's own spill= puts cached updates on disk, cache_bits= packs them"
SPILL_BYTES = 1 << 30  # of what clients remember: more goes to disk unless it is told where


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes, by what holds them."""

    model: int
    task: int
    server: int
    updates: int  # on their way
    memories: int  # of clients
    kept: int  # of each client by the server: cached updates, the server's end of links; never spilled

    @property
    def spills(self) -> bool:
        """Whether the clients' memories go to disk by default."""
        return self.memories > SPILL_BYTES

    def total(self, spilled: bool) -> int:
        return self.task + self.server + self.updates + self.kept + (0 if spilled else self.memories)


def footprint(
    algorithm: Algorithm, task: Task, rounds: int, workers: int = 1, *, alike: bool = True
) -> Footprint:
    """The memory that `rounds` server steps of `algorithm` on `task` hold at once.

    `alike`: all devices are, so that the updates of a step arrive at one instant. One process makes them one after
    another; several have them ready, as far as a pool has room.
    """
    model, at_once = 4 * task.layout.size, _at_once(algorithm, task.clients)
    share, sender, receiver = uploaded(algorithm)
    extra = WORKER * workers if workers > 1 else 0
    entries = memory_size(task, algorithm.local)
    memory = model * (sender + control_variate(algorithm)) + 4 * entries
    met = min(task.clients, at_once * rounds)
    room = waiting_results(8 * (task.layout.size + entries), workers) if workers > 1 else 1
    return Footprint(
        model,
        int(model * (TASK + extra)),
        int(model * (STEP + server_states(algorithm))),
        int(model * share * (min(at_once, room) if alike else 1)),
        int(memory * met),
        int(model * (receiver + cached_update(algorithm)) * met),
    )


def server_states(algorithm: Algorithm) -> float:
    """Vectors that the server's rules hold between two steps."""
    x, correction = np.zeros(TINY, np.float32), algorithm.correction
    return (
        _vectors(algorithm.server_opt.init(x))
        + _counted(lambda: algorithm.aggregate.init(x, 1))
        + (0.0 if correction is None else _counted(lambda: correction.init(x, 1)))
    )


def control_variate(algorithm: Algorithm) -> float:
    """What a client remembers of a correction, as a share of the model."""
    rule, v = algorithm.correction, np.ones(TINY, np.float32)
    return 0.0 if rule is None else _counted(lambda: rule.after(None, None, v, 1.0, 1.0)[1])


def cached_update(algorithm: Algorithm) -> float:
    """The last update of a client as the server caches it, as a share of the model; nothing where that is on disk."""
    cache, v = algorithm.aggregate, np.linspace(-1, 1, TINY, dtype=np.float32)
    if not isinstance(cache, Cached) or cache.spill is not None:
        return 0.0
    return cache.format.nbytes(cache.format.store(v, np.random.default_rng(0))) / v.nbytes


def uploaded(algorithm: Algorithm) -> tuple[float, float, float]:
    """A frame, and what the client and the server remember of it, as shares of the model."""
    link, v = as_uplink(algorithm.up), np.linspace(-1, 1, TINY, dtype=np.float32)
    try:
        frame, sender = link.send(v, link.init(TINY, v.dtype), Context(0), np.random.default_rng(0))
        _, receiver = link.receive(frame, link.init(TINY, v.dtype), TINY)
    except Exception:  # a stranger's link may want its own model; what is not known is not counted
        return 0.0, 0.0, 0.0
    return min(1.0, len(frame) / v.nbytes), _vectors(sender), _vectors(receiver)


def require_memory(needed: Footprint, spilled: bool) -> None:
    """Refuse what cannot fit, with the reason."""
    available, total = available_bytes(), needed.total(spilled)
    if available is not None and total > available:
        parts = {"the task": needed.task, "the server": needed.server, "updates on their way": needed.updates}
        if not spilled:
            parts["what clients remember (spill= puts it on disk)"] = needed.memories
        parts[f"what the server keeps of each client ({KEPT})"] = needed.kept
        said = ", ".join(f"{size / 1e9:.1f} GB for {what}" for what, size in parts.items() if size)
        raise ConfigError(
            f"this run must fit in memory: it takes at least {total / 1e9:.1f} GB ({said}); "
            f"{available / 1e9:.1f} GB are free"
        )


def spill_folder(needed: Footprint, asked: str | None) -> str | None:
    """Where clients' memories go: where it was asked for, to disk if there are many, else nowhere."""
    return asked if asked is not None or not needed.spills else tempfile.gettempdir()


def _at_once(algorithm: Algorithm, clients: int) -> int:
    """Clients whose updates a step waits for."""
    return min(clients, algorithm.pace.per_step or clients)


def _counted(make: Callable[[], Any]) -> float:
    """`_vectors` of what a rule makes; a stranger's may want its own model, and what is not known is not counted."""
    try:
        return _vectors(make())
    except Exception:
        return 0.0


def _vectors(state: Any) -> float:
    """How many models' worth of numbers a state holds."""
    if isinstance(state, np.ndarray):
        return state.nbytes / (4 * TINY) if state.size >= TINY else 0.0
    if is_dataclass(state) and not isinstance(state, type):
        return sum(_vectors(getattr(state, field.name)) for field in fields(state))
    if isinstance(state, Mapping):
        return sum(map(_vectors, state.values()))
    return sum(map(_vectors, state)) if isinstance(state, (tuple, list)) else 0.0
