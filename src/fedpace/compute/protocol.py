"""Engines, and local training as they see it: a pure function of a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from fedpace.vector import Layout, Spans, Vector

Key = tuple[int, int]  # client and session: what names a local training


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """All that decides the outcome of one session's local training, to the bit."""

    client: int  # with the session it names the random streams
    session: int  # the client's own count of sessions
    start: Vector  # the model it begins from (read-only)
    version: int  # the server version behind `start`; -1 for a vector only this client holds
    local: Any  # SGD, or another rule of fedpace.local
    steps: int
    seed: int
    correction: Vector | None = None  # added to every stochastic gradient (SCAFFOLD, FedNova-VR)
    data: int = field(
        kw_only=True
    )  # where its samples are in the task; `client` if it holds those of all clients
    memory: Vector | None = field(default=None, kw_only=True)  # what the client kept of its sessions before
    beside: int = field(default=0, kw_only=True)  # steps that train only what stays on the client
    frozen: Spans = field(default=(), kw_only=True)  # coordinates that stay as they are

    @property
    def key(self) -> Key:
        return self.client, self.session

    def same_as(self, other: Request) -> bool:
        """Whether two requests of one key are for the same training: a session may be cut short in between."""
        same = self.start is other.start and self.correction is other.correction
        return same and self.steps == other.steps and self.memory is other.memory

    def without_vectors(self) -> dict[str, Any]:
        """The other fields by name, for engines that send vectors in a way of their own."""
        return {name: getattr(self, name) for name in _SMALL}


_SMALL = tuple(name for name in Request.__slots__ if name not in ("start", "correction", "memory"))


class Task(Protocol):
    """Data of all clients and a model: everything an experiment trains.

    What a task may have beside this, and is asked for with `getattr`:

        train_until(request, stopped) -> (delta, steps taken)
            `stopped()` is asked before every step by the thread that trains; it is cheap and leaves the task alone.
            After k steps delta is bit-identical to `solve` with steps=k; k is never more than `request.steps`.
        lane(request) -> int | None,  solve_together(requests) -> [delta, ...]
            many requests as one computation (`fedpace.compute.together`); in lanes none can be stopped.
        memory_size(local) -> int
            entries of what a client keeps from one session to the next under this local rule. `solve` then returns
            delta followed by that many; the next session finds them in `request.memory`, which is None at the first.
        freezes
            True where `request.frozen` is obeyed.
        multiply_accumulates
            of the model, for one sample: device presets scale their seconds per step by it.
    """

    @property
    def name(self) -> str: ...

    @property
    def clients(self) -> int: ...

    @property
    def layout(self) -> Layout: ...

    def initial(self, seed: int) -> Vector:
        """The model before training."""
        ...

    def samples(self, client: int) -> float:
        """n_i; real-valued for tasks that are weighted rather than sampled."""
        ...

    def solve(self, request: Request) -> Vector:
        """delta = y_end - y_start after `request.steps` local steps. Pure; never writes to `request.start`."""
        ...

    def evaluate(self, x: Vector) -> Mapping[str, float]:
        """Metrics on held-out data, at least "loss"."""
        ...


class Engine(Protocol):
    """Runs local training. Announced requests may run ahead, in any order, with identical results."""

    name: str  # and how it computes local steps, for the record of a run
    rounding: str  # "" if results are those of `inline` to the bit, else what differs

    def announce(self, request: Request, finish_s: float) -> None:
        """This result will be asked for, around virtual time `finish_s`."""
        ...

    def result(self, request: Request) -> Vector:
        """What the task's `solve` returns for this request, computed now if it was not announced."""
        ...

    def forget(self, key: Key) -> None:
        """The result is not needed after all."""
        ...

    def close(self) -> None: ...


def describe(requests: Sequence[Request]) -> str:
    """Clients and sessions in one line, for error messages."""
    return ", ".join(f"client {r.client} session {r.session}" for r in requests)


def on_gpu(task: Task) -> bool:
    """Whether a task computes on a GPU; a copy of a process that uses one cannot use it."""
    device = getattr(task, "device", None)
    return device is not None and not device.is_host


def memory_size(task: Task, local: Any) -> int:
    """Entries that a client keeps from one session to the next; 0 for most."""
    find: Any = getattr(task, "memory_size", None)
    return 0 if find is None else int(find(local))
