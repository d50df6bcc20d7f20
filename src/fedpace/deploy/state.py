"""All that a coordinator knows beside the server's state, as one plain value."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedpace.deploy.expectations import Expectations
from fedpace.server import Update
from fedpace.sim.observer import StepRecord, Tally
from fedpace.vector import Vector


@dataclass(slots=True)
class Deliveries:
    """Counters of what went wrong between server and clients, and was made good."""

    resent: int = 0  # models, polls and interruptions
    resynchronised: int = 0  # clients whose memories were not those the server knows of
    overdue: int = 0
    disconnected: int = 0
    dropped: int = 0  # sessions that a client gave up


@dataclass(slots=True, kw_only=True)
class CoordinatorState:
    """All that is known beside the server's state."""

    position: int = 0  # inputs handled
    now: float = 0.0
    incarnations: list[tuple[int, int]] = field(default_factory=list)  # (id, position of its beginning)
    started: bool = False
    connected: set[int] = field(default_factory=set)
    paused: set[int] = field(default_factory=set)
    overdue: set[int] = field(default_factory=set)
    forgotten_at: dict[int, int] = field(
        default_factory=dict
    )  # client -> position of its last resynchronisation
    origins: dict[int, int] = field(default_factory=dict)  # client -> of the last update that came
    taken_from: dict[int, int] = field(default_factory=dict)  # client -> origin of the last update taken
    samples: dict[int, float] = field(default_factory=dict)  # n_i, as first said
    population: list[int] = field(default_factory=list)  # its samples fixed the aggregation
    wanting: dict[int, int] = field(
        default_factory=dict
    )  # client -> it waits for a broadcast newer than this
    broadcast: tuple[int, int] | None = None  # the newest: version and round
    sent: dict[int, tuple[int, int]] = field(default_factory=dict)  # the last model each client was sent
    held_back: dict[int, Update] = field(default_factory=dict)  # until the cohort is complete (`in_order`)
    expected: Expectations = field(default_factory=Expectations)
    steps: list[StepRecord] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    reported: tuple[int, int] = (0, 0)  # bytes up and down in `steps`
    metrics: dict[int, dict[str, float]] = field(default_factory=dict)  # version -> what the server measured
    # version -> client -> samples, metrics
    client_metrics: dict[int, dict[int, tuple[float, dict[str, float]]]] = field(default_factory=dict)
    sums: dict[int, dict[int, tuple[float, Vector]]] = field(default_factory=dict)  # the same, for statistics
    statistics: dict[int, Vector] = field(default_factory=dict)  # version -> running statistics, the newest
    deliveries: Deliveries = field(default_factory=Deliveries)
