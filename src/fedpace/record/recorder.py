"""What a simulation reports, and to whom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from fedpace.vector import Vector


@dataclass(frozen=True, slots=True)
class StepRecord:
    """The state after one server step. Bytes are those since the previous record."""

    version: int
    virtual_seconds: float
    clients: tuple[int, ...]  # in order of arrival, with multiplicity
    staleness: tuple[int, ...]  # aligned with `clients`
    bytes_up: int
    bytes_down: int
    metrics: Mapping[str, float] = field(default_factory=dict)  # empty when not evaluated


@dataclass(frozen=True, slots=True)
class Activity:
    """A stretch of one client's time."""

    client: int
    start: float
    end: float
    kind: str  # train | upload | download
    version: int
    session: int


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a session: consumed | overwritten | dropped | refused, and by which step."""

    client: int
    session: int
    fate: str
    version: int | None = None  # the step that consumed it


class Recorder(Protocol):
    """Takes what a simulation reports. `traces` says whether it wants activities and fates."""

    traces: bool

    def step(self, record: StepRecord, x: Vector) -> None: ...

    def activity(self, activity: Activity) -> None: ...

    def fate(self, fate: Fate) -> None: ...
