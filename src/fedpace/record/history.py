"""Takes what a simulation reports and keeps it in memory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

from fedpace.record.recorder import Activity, Fate, Recorder, StepRecord
from fedpace.vector import Vector


@runtime_checkable
class Resumable(Protocol):
    """A recorder that wants to know when a run goes on from a checkpoint."""

    def resume(self, steps: Sequence[StepRecord]) -> None:
        """These steps lie behind; whatever was reported after them is taken back and will be reported anew."""
        ...


class History:
    """A recorder that keeps everything a `Run` shows, and passes it on to other recorders."""

    def __init__(
        self, *, keep_models: bool = False, traces: bool = True, others: Iterable[Recorder] = ()
    ) -> None:
        self.others = list(others)
        self._keeps_traces = traces
        self.traces = traces or any(other.traces for other in self.others)
        self.steps: list[StepRecord] = []
        self.model: Vector | None = None  # after the last step; None before the first
        self.models: list[Vector] | None = [] if keep_models else None
        self.activities: list[Activity] = []
        self.fates: list[Fate] = []

    def step(self, record: StepRecord, x: Vector) -> None:
        record = _without_nan(record)
        self.steps.append(record)
        self.model = x
        if self.models is not None:
            self.models.append(x)
        for other in self.others:
            other.step(record, x)

    def resumed(self) -> None:
        """The run goes on from what is in here."""
        for other in self.others:
            if isinstance(other, Resumable):
                other.resume(self.steps)

    def activity(self, activity: Activity) -> None:
        if self._keeps_traces:
            self.activities.append(activity)
        for other in self.others:
            if other.traces:
                other.activity(activity)

    def fate(self, fate: Fate) -> None:
        if self._keeps_traces:
            self.fates.append(fate)
        for other in self.others:
            if other.traces:
                other.fate(fate)


def _without_nan(record: StepRecord) -> StepRecord:
    """A metric that is not a finite number tells nothing and is left out."""
    finite = {name: value for name, value in record.metrics.items() if math.isfinite(value)}
    return record if len(finite) == len(record.metrics) else replace(record, metrics=finite)
