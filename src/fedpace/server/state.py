"""All the server knows, as one plain value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedpace.aggregate.protocol import Contribution
from fedpace.errors import ConfigError
from fedpace.server.holds import Holds
from fedpace.server.versions import Versions
from fedpace.vector import Vector


@dataclass(slots=True, kw_only=True)
class Members:
    """The updates in the step that is being formed, in order of arrival, with multiplicity."""

    clients: list[int] = field(default_factory=list)
    sessions: list[int] = field(default_factory=list)
    staleness: list[int] = field(default_factory=list)
    clipped: int = 0


@dataclass(slots=True, kw_only=True)
class Counts:
    """Counters of received updates, by outcome."""

    taken: int = 0
    refused: int = 0  # late, unexpected, too stale, or in a step that was not taken
    malformed: int = 0
    not_finite: int = 0
    duplicates: int = 0
    resyncs: int = 0
    clipped: int = 0
    steps_not_taken: int = 0


@dataclass(slots=True)
class Failures:
    """Updates or steps in a row that were not finite, and their clients."""

    count: int = 0
    clients: set[int] = field(default_factory=set)

    def add(self, *clients: int) -> None:
        self.count += 1
        self.clients.update(clients)

    def clear(self) -> None:
        self.count = 0
        self.clients.clear()


@dataclass(slots=True, kw_only=True)
class ServerState:
    version: int = 0  # t: server steps taken
    x: Vector  # x_t
    opt: Any  # the server optimizer's
    aggregate: Any  # the aggregator's, for the step being formed
    settled: Any  # the aggregator's as the step began
    pace: Any  # the pacing rule's
    down: Any  # the downlink's, for all clients
    control: Any = None  # the correction's
    generation: int = 0  # how often corrections began anew
    up: dict[int, Any] = field(default_factory=dict)  # the uplink's, per client heard from
    heard: dict[int, int] = field(default_factory=dict)  # client -> last session taken
    samples: dict[int, float] = field(default_factory=dict)  # n_i, registered
    versions: Versions = field(default_factory=Versions)
    holds: Holds = field(default_factory=Holds)
    members: Members = field(default_factory=Members)
    kept: list[Contribution] = field(default_factory=list)  # offered again after the next step
    counts: Counts = field(default_factory=Counts)
    absent: set[int] = field(default_factory=set)
    wake_at: float | None = None
    draws: int = 0  # random choices made
    bad_updates: Failures = field(default_factory=Failures)
    bad_steps: Failures = field(default_factory=Failures)
    step_norms: tuple[float, ...] = ()  # ||x_t - x_{t-1}||^2, newest first, where a link asks for them


def registered(samples: Sequence[float] | None, clients: int) -> dict[int, float]:
    """n_i by client, as they are known before anybody joins."""
    if samples is None:
        return {}
    if len(samples) != clients:
        raise ConfigError(f"samples must be one number for each of {clients} clients; got {len(samples)}")
    return {client: float(n) for client, n in enumerate(samples)}


def shares(samples: Mapping[int, float], clients: int) -> Vector:
    """p_i of all clients; one that never registered counts as one sample."""
    known: Vector = np.array([samples.get(client, 1.0) for client in range(clients)])
    return known / np.sum(known)
