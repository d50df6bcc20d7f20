"""The outcome of a run: enough for every table and picture, small enough to save thousands."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from fedpace.disk.files import to_json
from fedpace.errors import Stop
from fedpace.record import Run
from fedpace.sim.observer import Observer, StepRecord
from fedpace.vector import Vector

SMALL = 64  # models up to this size are saved too: those of exact experiments


@dataclass(frozen=True, slots=True)
class Evaluation:
    """An evaluation: its step, virtual time, traffic and metrics."""

    version: int
    seconds: float
    bytes_up: int
    bytes_down: int
    metrics: Mapping[str, float]

    @property
    def bytes(self) -> int:
        return self.bytes_up + self.bytes_down


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One run of one cell."""

    ended: str  # finished | settled | diverged
    steps: int
    seconds: float  # virtual, of the last step
    bytes_up: int
    bytes_down: int
    points: Sequence[Evaluation]
    staleness: Mapping[int, int]  # of the updates used: staleness -> how often
    traffic: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # totals by direction
    model: Sequence[float] | None = None
    training_loss: float | None = None
    real_seconds: float = 0.0
    sessions: int = 0  # local trainings begun, used or not

    @property
    def diverged(self) -> bool:
        return self.ended == "diverged"

    def values(self, metric: str = "accuracy") -> list[float]:
        return [point.metrics[metric] for point in self.points if metric in point.metrics]

    def final(self, metric: str = "accuracy", last: int = 1) -> float:
        """Mean of the last evaluations; a diverged run knows nothing, its accuracy is 0."""
        if self.diverged and metric == "accuracy":
            return 0.0
        found = self.values(metric)[-last:]
        return sum(found) / len(found) if found else float("nan")

    def first_at(self, target: float, metric: str = "accuracy") -> Evaluation | None:
        """The first evaluation at or above the target."""
        return next((point for point in self.points if point.metrics.get(metric, -1.0) >= target), None)

    @property
    def mean_staleness(self) -> float:
        total = sum(self.staleness.values())
        return sum(tau * times for tau, times in self.staleness.items()) / total if total else 0.0

    @property
    def max_staleness(self) -> int:
        return max(self.staleness, default=0)

    def plain(self) -> dict[str, Any]:
        return asdict(self)

    def to_json(self) -> str:
        return to_json(self.plain())

    @classmethod
    def from_json(cls, text: str) -> Outcome:
        return cls.from_plain(json.loads(text))

    @classmethod
    def from_plain(cls, fields: Mapping[str, Any]) -> Outcome:
        points = tuple(Evaluation(**point) for point in fields["points"])
        staleness = {int(tau): times for tau, times in fields["staleness"].items()}
        model = None if fields["model"] is None else tuple(fields["model"])
        return cls(**{**fields, "points": points, "staleness": staleness, "model": model})

    @classmethod
    def of(cls, run: Run, ended: str, training_loss: float | None = None) -> Outcome:
        return cls(
            ended=ended,
            steps=len(run.history),
            seconds=run.virtual_seconds,
            bytes_up=run.bytes_up,
            bytes_down=run.bytes_down,
            points=_points(run.history),
            staleness=dict(
                sorted(Counter(tau for record in run.history for tau in record.staleness).items())
            ),
            traffic={side: _numbers(run.traffic.get(side, {})) for side in ("up", "down")},
            model=tuple(map(float, run.model)) if run.model.size <= SMALL else None,
            training_loss=training_loss,
            real_seconds=float(run.summary.get("real_seconds", 0.0)),
            sessions=run.counters.get("sessions", 0),
        )


def _points(history: Sequence[StepRecord]) -> tuple[Evaluation, ...]:
    points, up, down = [], 0, 0
    for record in history:
        up, down = up + record.bytes_up, down + record.bytes_down
        if record.metrics:
            points.append(Evaluation(record.version, record.virtual_seconds, up, down, dict(record.metrics)))
    return tuple(points)


def _numbers(totals: Mapping[str, Any]) -> dict[str, float]:
    return {name: value for name, value in totals.items() if isinstance(value, int | float)}


class Watch(Observer):
    """Ends a run which has reached its target, or has run out of virtual time."""

    def __init__(self, stop_at: float | None, stop_s: float | None):
        self.stop_at, self.stop_s = stop_at, stop_s

    def recorded(self, record: StepRecord, x: Vector) -> None:
        if self.stop_at is not None and record.metrics.get("accuracy", -1.0) >= self.stop_at:
            raise Stop(f"accuracy {self.stop_at} reached")
        if self.stop_s is not None and record.virtual_seconds >= self.stop_s:
            raise Stop(f"{self.stop_s} virtual seconds are over")
