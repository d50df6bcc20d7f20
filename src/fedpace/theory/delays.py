"""The staleness of updates: exact where it is known, and as a timing run shows it.

Bookkeeping that holds whatever the speeds: each server step ages every session under way by one, so the staleness
of what is delivered and the age of what is under way add up to the number of active sessions times the steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from fedpace.pace import Arrivals, Buffered, Immediate, Replayed, Rounds
from fedpace.theory.stability import Reals


class DelayedStep(Protocol):
    """The part of a step's record that tells of delays."""

    @property
    def clients(self) -> Sequence[int]: ...

    @property
    def staleness(self) -> Sequence[int]: ...


@dataclass(frozen=True, slots=True, eq=False)
class Delays:
    """The staleness of updates, and each client's share of them."""

    mean: float
    largest: int
    chances: Reals  # of a staleness of 0, 1, 2, ...
    shares: Reals  # of the arrivals, per client
    cache_age: int  # the oldest update a cache of every client's last one would hold
    exact_mean: float | None = None  # where it is known
    measured: int = 0  # server steps that were looked at; 0: exact values alone


def mean_staleness(pace: Any, clients: int) -> float | None:
    """The exact long-run mean, for any speeds; None where speeds decide.

    Buffered, M_c active clients: batch M_c/M − 1, immediate (M_c − 1)/M; one update per step (FedAsync): M_c − 1;
    arrivals of clients that never rest (`reuse_model`): (N − 1)/n; replayed: (R − 1)/2; rounds: 0.
    """
    active = min(getattr(pace, "concurrency", None) or clients, clients)
    match pace:
        case Rounds():
            return 0.0
        case Replayed():
            return (pace.history - 1) / 2
        case Buffered():
            batch = pace.dispatch_mode == "batch"
            return active / pace.buffer - 1 if batch else (active - 1) / pace.buffer
        case Immediate():
            return active - 1.0
        case Arrivals() if pace.reuse_model:
            return (clients - 1) / pace.buffer
    return None


def exact_delays(pace: Any, clients: int) -> Delays | None:
    """Where the whole distribution is known: rounds and replayed delays."""
    if not isinstance(pace, Rounds | Replayed):
        return None
    chances = np.full(getattr(pace, "history", 1), 1 / getattr(pace, "history", 1))
    mean, largest = (len(chances) - 1) / 2, len(chances) - 1
    return Delays(mean, largest, chances, np.full(clients, 1 / clients), largest, mean)


def seen_in(history: Sequence[DelayedStep], pace: Any, clients: int) -> Delays:
    """The delays of a run; its first third, where staleness still builds up, does not count for the mean."""
    late = history[len(history) // 3 :]
    staleness = np.array([age for step in late for age in step.staleness], dtype=np.int64)
    counts = np.bincount(staleness) if staleness.size else np.ones(1, dtype=np.int64)
    arrivals = np.bincount([c for step in late for c in step.clients], minlength=clients).astype(np.float64)
    return Delays(
        mean=float(staleness.mean()) if staleness.size else 0.0,
        largest=max((age for step in history for age in step.staleness), default=0),
        chances=counts / counts.sum(),
        shares=arrivals / max(arrivals.sum(), 1.0),
        cache_age=_oldest_cached(history, clients),
        exact_mean=mean_staleness(pace, clients),
        measured=len(history),
    )


def _oldest_cached(history: Sequence[DelayedStep], clients: int) -> int:
    """ζ_max: the largest age, in steps, of a last update, from the step on at which all clients have been heard."""
    born: dict[int, int] = {}
    oldest = 0
    for version, step in enumerate(history):
        if len(born) == clients:
            oldest = max(oldest, version - min(born.values()))
        born |= {c: version - age for c, age in zip(step.clients, step.staleness, strict=True)}
    return oldest
