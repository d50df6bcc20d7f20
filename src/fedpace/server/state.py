"""All the server knows, as one plain value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fedpace.pace.protocol import Header
from fedpace.server.versions import Versions
from fedpace.vector import Vector


@dataclass(frozen=True, slots=True)
class Arrived:
    """A decoded update."""

    header: Header
    delta: Vector
    steps: int
    a_norm1: float
    samples: float
    control: Vector | None = None


@dataclass(slots=True, kw_only=True)
class Members:
    """Who is in the step that is being formed, in order of arrival, with multiplicity."""

    clients: list[int] = field(default_factory=list)
    sessions: list[int] = field(default_factory=list)
    staleness: list[int] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Counts:
    """What became of what arrived."""

    taken: int = 0
    refused: int = 0  # late, unexpected or too stale
    malformed: int = 0
    not_finite: int = 0
    duplicates: int = 0
    resyncs: int = 0


@dataclass(slots=True, kw_only=True)
class ServerState:
    version: int = 0  # t: server steps taken
    x: Vector  # x_t
    opt: Any  # the server optimizer's
    aggregate: Any  # the aggregator's, for the step being formed
    pace: Any  # the pacing rule's
    down: Any  # the downlink's, for all clients
    control: Any = None  # the correction's
    up: dict[int, Any] = field(default_factory=dict)  # the uplink's, per client heard from
    heard: dict[int, int] = field(default_factory=dict)  # client -> last session taken
    versions: Versions = field(default_factory=Versions)
    members: Members = field(default_factory=Members)
    kept: list[Arrived] = field(default_factory=list)  # offered again after the next step
    counts: Counts = field(default_factory=Counts)
    absent: set[int] = field(default_factory=set)
    wake_at: float | None = None
    draws: int = 0  # random choices made
    bad_in_a_row: int = 0  # non-finite updates since the last good one, or since others are waited for
    step_norms: tuple[float, ...] = ()  # ||x_t - x_{t-1}||^2, newest first, where a link asks for them
