"""The history of a run, in memory."""

from __future__ import annotations

from collections.abc import Mapping

from fedpace.client_spread import ClientSpread
from fedpace.sim.observer import Activity, Fate, Observer, StepRecord
from fedpace.vector import Vector


class History(Observer):
    """Records everything a `Run` shows; without `traces` neither activities nor fates."""

    def __init__(self, *, keep_models: bool = False, traces: bool = True) -> None:
        self.traces = traces
        self.initial: Mapping[str, float] = {}  # metrics of the initial model, where it was evaluated
        self.steps: list[StepRecord] = []
        self.model: Vector | None = None  # after the last step; None before the first
        self.models: list[Vector] | None = [] if keep_models else None
        self.activities: list[Activity] = []
        self.fates: list[Fate] = []
        self.client_metrics: dict[int, ClientSpread] = {}  # by version, where clients were measured

    def wants(self, hook: str) -> bool:
        return super().wants(hook) and (self.traces or hook not in ("activity", "fate"))

    def begun(self, metrics: Mapping[str, float]) -> None:
        self.initial = metrics

    def recorded(self, record: StepRecord, x: Vector) -> None:
        self.steps.append(record)
        self.model = x
        if self.models is not None:
            self.models.append(x)

    def activity(self, activity: Activity) -> None:
        self.activities.append(activity)

    def fate(self, fate: Fate) -> None:
        self.fates.append(fate)
