"""Stop rules: a target is reached, nothing improves any more, or a budget of bytes or seconds is spent."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedpace.errors import ConfigError, Stop, require, require_count, require_number, unknown
from fedpace.record.run.evaluation import every
from fedpace.record.run.metrics import main_metric, rises
from fedpace.record.run.units import format_bytes, format_seconds
from fedpace.sim.observer import Observer, StepRecord
from fedpace.untrusted import as_number
from fedpace.vector import Vector

BUDGETS = ("traffic", "virtual_seconds", "real_seconds")
KEYS = ("patience", *BUDGETS)

StopLike = Mapping[str, float | int | str]


@dataclass(frozen=True, slots=True)
class StopRules:
    """When a run ends before its last step: at the first of these. Empty: never."""

    targets: tuple[tuple[str, float], ...] = ()  # metrics and the values to reach
    patience: int | None = None  # evaluations without a new best value
    traffic: float = math.inf  # bytes, up and down
    virtual_seconds: float = math.inf
    real_seconds: float = math.inf  # of this execution

    @property
    def evaluates(self) -> bool:
        """Whether it needs metrics."""
        return bool(self.targets) or self.patience is not None

    @property
    def repeatable(self) -> dict[str, Any]:
        """What decides the outcome: everything but real time."""
        known = {"patience": self.patience, "traffic": self.traffic, "virtual_seconds": self.virtual_seconds}
        said = {name: value for name, value in known.items() if value not in (None, math.inf)}
        return {**dict(self.targets), **said}


def stop_rules(stop: StopLike) -> StopRules:
    """`{"accuracy": 0.9, "patience": 10, "traffic": "5MB", "virtual_seconds": 300, "real_seconds": 60}`."""
    require(
        isinstance(stop, Mapping) and len(stop) > 0,
        "stop",
        stop,
        "a dict such as {'accuracy': 0.9, 'patience': 10}",
    )
    given = dict(stop)
    patience = given.pop("patience", None)
    if patience is not None:
        require_count(patience, "stop: patience")
    budgets = {name: _budget(name, given.pop(name)) for name in BUDGETS if name in given}
    for name, value in given.items():
        require_number(
            value, f"stop: {name}", low=-1e300, high=1e300, allowed=f"a number, or one of {', '.join(KEYS)}"
        )
    targets = tuple((name, as_number(value)) for name, value in given.items())
    return StopRules(targets, patience, **budgets)  # type: ignore[arg-type]


def _budget(name: str, value: object) -> float:
    if name == "traffic" and isinstance(value, str):
        interval = every(value)
        size = None if interval is None else interval.size_bytes
        if size is None:
            raise ConfigError(f"stop: traffic must be bytes such as 5MB; got {value!r}")
        return size
    require_number(value, f"stop: {name}", above=0, below=math.inf, allowed="a number > 0")
    return as_number(value)


class Stopping(Observer):
    """Ends a run as its rules say. All it knows follows from the records, so a resumed run stops at the same step."""

    def __init__(self, rules: StopRules, seconds: Callable[[], float]) -> None:
        self.rules, self._seconds = rules, seconds
        self._bytes = 0
        self._best: float | None = None
        self._since = 0  # evaluations since the best one

    def begun(self, metrics: Mapping[str, float]) -> None:
        for name, _ in self.rules.targets:
            if metrics and name not in metrics:
                raise unknown("stop: metric", name, (*metrics, *KEYS))

    def resumed(self, steps: Sequence[StepRecord]) -> None:
        for record in steps:
            self._seen(record)
        if steps and (reason := self._reason(steps[-1])):
            raise Stop(reason)

    def recorded(self, record: StepRecord, x: Vector) -> None:
        self._seen(record)
        if reason := self._reason(record):
            raise Stop(reason)

    def spent(self, virtual_seconds: float, size_bytes: int) -> str:
        """The budget that is used up, in words; empty if none is."""
        rules, real = self.rules, self._seconds()
        if size_bytes >= rules.traffic:
            return f"{format_bytes(size_bytes)} of {format_bytes(rules.traffic)} are used"
        if virtual_seconds >= rules.virtual_seconds:
            return f"{format_seconds(rules.virtual_seconds)} of virtual time are over"
        return (
            f"{format_seconds(rules.real_seconds)} of real time are over"
            if real >= rules.real_seconds
            else ""
        )

    def _seen(self, record: StepRecord) -> None:
        self._bytes += record.bytes_up + record.bytes_down
        if not record.metrics:
            return
        name = self.rules.targets[0][0] if self.rules.targets else main_metric(record.metrics)
        value = record.metrics.get(name)
        better = value is not None and (self._best is None or _beats(name, value, self._best))
        self._since = 0 if better else self._since + 1
        self._best = value if better else self._best

    def _reason(self, record: StepRecord) -> str:
        for name, goal in self.rules.targets:
            value = record.metrics.get(name)
            if value is not None and (value == goal or _beats(name, value, goal)):
                return f"{name} {value:.4g} reaches {goal:g}"
        if self.rules.patience is not None and self._since >= self.rules.patience:
            return f"no improvement in {self._since} evaluations"
        return self.spent(record.virtual_seconds, self._bytes)


def _beats(metric: str, value: float, other: float) -> bool:
    return value > other if rises(metric) else value < other
